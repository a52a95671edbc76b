// One step: every layer for all its rows, and the tokens they choose.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "model.h"

namespace native {

// Parts of a step whose time is counted.
enum Phase { kEmbed, kNorm, kQkv, kRope, kAttention, kO, kGateUp, kDown, kHead, kChoose, kWait, kPhases };

// Seconds of a steady clock.
double now();

class Step {
 public:
  explicit Step(Model& model);

  // Compute the rows and choose their tokens. False: nothing was done, model.error says why.
  bool run(const Rows& rows, const Chosen& chosen);
  // Compute the rows and give the logits behind each token, [tokens][vocab]; nothing is chosen.
  bool run(const Rows& rows, float* logits);
  // Log-probabilities behind tokens of the last step. False: nothing was done, model.error says why.
  bool score(const Scores& scores);

  bool timed = false;
  double seconds[kPhases] = {};  // of the first thread, while timed

 private:
  struct Row {
    int32_t slot, start, queries, drafts, first_token;
    bool samples;
  };
  // Attention of some query tokens of a row to some chunks of its context.
  struct Item {
    int32_t row, token, tokens, kv_head, kv_heads, chunk, chunks;
  };

  bool prepare(const Rows& rows, bool every);
  bool check(const Row& row, int32_t length);
  void place_tokens(const Rows& rows);
  void plan_attention();
  void add_items(int row, bool by_head, bool by_chunk);
  int first_chunk(int position) const;
  void start();

  static void enter(void* step, int thread, int threads);
  static void enter_score(void* step, int thread, int threads);
  void score(int thread, int threads);
  void work(int thread, int threads);
  void embed(int thread, int threads);
  void layer(int index, int thread, int threads);
  void rope(int index, int thread, int threads);
  void attend(int index, int thread);
  void merge(int thread, int threads);
  void outputs(int thread, int threads);
  void choose(int thread);
  int choose_row(int index, int thread);
  void report(const Row& row, int output, int32_t id);

  struct Duty {
    bool alone;
    int from, to;
    Acts acts;
  };

  Duty duty(ActsBuffer& shared, const Linear& next, int rows, int few, int thread, int threads);
  void norm_row(const float* norm, const Linear& next, const Acts& acts, int token, int row,
                int thread);
  Acts normed(const float* norm, const Linear& next, int thread, int threads);
  Acts finished(const Linear& next, int thread, int threads);
  void multiply(const Linear& linear, const Acts& acts, int rows, const Epilogue& epilogue,
                const Linear* next, int thread, int threads);
  void pass(int thread, int threads);
  void lap(int thread, Phase phase);

  Model& m_;
  const Isa& isa_;
  std::vector<Row> rows_;
  std::vector<int32_t> ids_, positions_, row_of_;
  std::vector<int32_t> outputs_;       // tokens whose logits are needed
  std::vector<int32_t> first_output_;  // of each row
  std::vector<int32_t> sampling_;      // rows that choose
  std::vector<Item> items_;
  std::vector<std::vector<Best>> thread_best_;
  const Chosen* chosen_ = nullptr;
  float* logits_ = nullptr;
  const Scores* scores_ = nullptr;
  int scored_ = 0;  // scores that were computed before these
  bool split_ = false;  // attention by chunk, merged afterwards
  int partial_chunks_ = 0;
  std::atomic<int> next_item_{0}, next_row_{0};
  double since_ = 0;
};

}  // namespace native
