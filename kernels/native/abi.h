// The C interface. Plain data in, plain data out: everything that lives longer is behind a handle.
#pragma once

#include <cstdint>

#define NATIVE_ABI 7
#define NATIVE_API extern "C" __attribute__((visibility("default")))

namespace native {

// How a matrix is held, or keys and values.
enum class Format : int32_t { bf16, int8, int4 };
// How drafts are judged: compared with what is drawn at their place, by chance one by one, or as a block.
enum class Verify : int32_t { sample, rejection, block };

// Sizes of a network and of its device state. Every field is checked by the caller.
struct Shape {
  int32_t vocab, hidden, layers, heads, kv_heads, head_dim, ffn;
  int32_t window;    // tokens seen, the own one included; 0: all
  int32_t qk_norm;   // RMS norm over each head of q and k
  int32_t tied;      // the head is the embedding
  int32_t block_size, blocks, slots, max_len, max_tokens;
  int32_t threads;
  int32_t shares;  // threads: fewer beside engines of other processes
  Format kept;  // of keys and values: bf16 or int8
  Verify verify;
  float eps, rope_scale;
  const double* frequencies;  // radians a position, [head_dim / 2]
};

// Which matrix of a layer; head and embedding belong to no layer, and the embedding is not packed.
enum class Part : int32_t { qkv, o, gate_up, down, head, embedding };
// Which vector of a layer; the last norm belongs to no layer.
enum class Vector : int32_t { attn_norm, ffn_norm, q_norm, k_norm, norm, qkv_bias, o_bias };

// How the tokens of a request are chosen.
struct Choice {
  int64_t seed;
  float temperature, top_p, min_p, presence, frequency, repetition;
  int32_t top_k, min_tokens, prompt_len, alternatives;  // alternatives: -1 reports nothing
  int32_t biases, stops;
  const int32_t *bias_ids, *stop_ids;
  const float* bias_values;
};

// The rows of a step, [rows] each; tokens of the query follow from the slot's own state.
struct Rows {
  int32_t rows;
  const int32_t* slots;
  const int32_t* queries;    // query tokens, drafts included
  const int32_t* lengths;    // tokens computed after the step where they are known, else -1
  const int32_t* samples;    // 1: chooses a token behind its query
  const int32_t* drafts;     // of the query, how many are drafts
  const int32_t* draft_ids;  // [sum of drafts]; null: those that the device has drafted itself
};

// What a step produced, for the rows that sample, in order. Arrays are the caller's; those of tokens
// have 1 + drafts places for each row, of which the first counts[row] are filled.
struct Chosen {
  int32_t* counts;  // tokens of each row: accepted drafts and the one behind them, [rows]
  int32_t* ids;      // below 0: none, since the likeliest token's logit is no finite number
  float* logprobs;  // null: nothing is reported
  int32_t* ranks;
  int32_t* top_ids;  // [places][alternatives]
  float* top_values;
  int32_t alternatives;  // the most that any row asks for
};

// How likely given tokens are behind query tokens of the last step. Arrays are the caller's.
struct Scores {
  int32_t count;
  const int32_t* places;  // query tokens of the step, [count]
  const int32_t* ids;     // which token's probability, [count]
  int32_t alternatives;   // reported with each
  float* logprobs;
  int32_t* ranks;
  int32_t* top_ids;  // [count][alternatives]
  float* top_values;
};

}  // namespace native
