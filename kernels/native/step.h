// One step: every layer for all its rows, and the tokens they choose.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model.h"

namespace native {

class Step : public Job, public std::enable_shared_from_this<Step> {
 public:
  explicit Step(Model& model);
  ~Step() override { m_.steps.fetch_sub(1, std::memory_order_release); }
  Step(const Step&) = delete;

  // Compute the rows with the first `layers` layers and choose their tokens. False: nothing was done,
  // model.error says why.
  bool run(const Rows& rows, const Chosen& chosen, int layers);
  // Compute the rows and give the logits behind each token, [tokens][vocab]; nothing is chosen.
  bool run(const Rows& rows, float* logits);
  // Scores [first, first + count) behind tokens of the step before, which was another.
  void score(const Scores& scores, int first, int count);

  void work(Walk& walk) override;

 private:
  struct Row {
    int32_t slot, start, queries, drafts, first_token;
    bool samples;
  };
  // Attention of some query tokens of a row to some chunks of its context.
  struct Item {
    int32_t row, token, tokens, kv_head, kv_heads, chunk, chunks;
  };
  // What a linear multiplies: rows that are there already, or, where there is a norm or values, those
  // that each thread makes of them for itself.
  struct Input {
    Acts acts;
    const Linear* linear;
    int rows;
    bool own;
    const float* norm;
    const float* values;
    const int32_t* tokens;  // of the residual stream; null: all
  };

  bool prepare(const Rows& rows, bool every);
  bool check(const Row& row, int32_t length);
  void place_tokens(const Rows& rows);
  void plan_attention();
  void keep_tables();
  void add_items(int row, bool by_head, bool by_chunk);
  void deal_items();
  int first_chunk(int position) const;
  void start();

  void score(Walk& walk);
  void embed(Walk& walk);
  void embed_token(int token);
  void layer(Walk& walk, int index);
  void rope(Walk& walk, int index);
  void clear_rest(int token, int index);
  void attend(Walk& walk, int index);
  void attend_item(AttentionWork& work, int index) const;
  void place(AttentionWork& work, const Item& item, bool half) const;
  void place_aside(AttentionWork& work, const Item& item, bool half, int thread) const;
  void bring_home(const AttentionWork& aside, const Item& item) const;
  size_t item_bytes(const Item& item) const;
  void merge(Walk& walk);
  void merge_head(int index) const;
  void outputs(Walk& walk);
  void choose(Walk& walk);
  int choose_row(int index, int thread);
  int compare_row(int index, int thread);
  int judge_row(int index, int thread);
  ChooseWork choice_at(const Row& row, int output, int thread) const;
  void yield(const Row& row, int output, int32_t id);
  Best best_of(int output) const;
  void report(const Row& row, int output, int32_t id);

  Input input(ActsBuffer& shared, const Linear& next, int rows, int few) const;
  Input normed(Walk& walk, const float* norm, const Linear& next, const int32_t* tokens, int rows,
               int few);
  Input finished(Walk& walk, const Linear& next);
  void share_out(Walk& walk, const Input& input);
  void make_row(const Input& input, const Acts& acts, int row, int thread) const;
  void multiply(Walk& walk, const Linear& linear, const Input& input, const Epilogue& epilogue,
                const Linear* next);
  void multiply_few(Walk& walk, const Linear& linear, const Input& input, const Epilogue& epilogue,
                    const Linear* next, int each);
  void lap(Walk& walk, Phase phase);

  Model& m_;
  const Isa& isa_;
  std::vector<Row> rows_;
  std::vector<int32_t> ids_, positions_, row_of_;
  std::vector<int32_t> outputs_;       // tokens whose logits are needed
  std::vector<int32_t> first_output_;  // of each row
  std::vector<int32_t> sampling_;      // rows that choose
  std::vector<Item> items_;
  std::vector<int32_t> tables_;       // blocks of all rows
  std::vector<size_t> first_block_;   // of each row, there
  std::vector<std::vector<Best>> thread_best_;
  const Chosen* chosen_ = nullptr;
  float* logits_ = nullptr;
  const Scores* scores_ = nullptr;
  int first_score_ = 0;
  int layers_ = 0;
  int threads_ = 0;  // that compute
  bool split_ = false;  // attention by chunk, merged afterwards
  bool twice_ = false;  // its items may be computed twice
  int partial_chunks_ = 0;
  double since_ = 0, waited_ = 0;
};

// Hands out steps that no thread is in.
struct Steps {
  virtual Step& next() = 0;
};

// Drafts of the first layers behind the text of each slot. False: as above.
bool draft(Model& model, Steps& steps, int rows, const int32_t* slots, const int32_t* counts, int layers);

// Log-probabilities behind tokens of the last step. False: nothing was done, model.error says why.
bool score(Model& model, const Scores& scores);

}  // namespace native
