// hop 5 of 10: after Admit, before Run.

#include "engine/planner.h"

#include <algorithm>
#include <utility>

#include "kv/layout.h"

namespace sluice::engine {
namespace {

class StepBuilder {
 public:
  StepBuilder(std::span<const PlanItem> items, const StepLimits& limits)
      : items_(items),
        limits_(limits),
        n_blocks_(limits.n_available_blocks),
        n_scores_(limits.n_scores) {}

  StepPlan Build() {
    for (const PlanItem& item : items_) {
      if (!item.may_run || !item.is_decoding) continue;
      if (!AddRows(item, 1)) return Without(Last());
    }
    ShareRows();
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const PlanItem& item = *prompts_[i];
      const int32_t n_rows = std::min(n_rows_[i], RowsThatFit(item));
      if (n_rows > 0) {
        AddRows(item, n_rows);
      } else if (n_rows_[i] > 0 && (&Last() > &item || Last().is_paused)) {
        return Without(Last());
      }
    }
    return std::move(plan_);
  }

 private:
  static StepPlan Without(const PlanItem& item) { return {.parts = {}, .victim = item.slot}; }

  // Of those that hold blocks, and of the paused if there are some. Somebody does, when there are
  // none to be had.
  const PlanItem& Last() const {
    const PlanItem* last = &items_.front();
    for (const PlanItem& item : items_) {
      if (item.n_blocks > 0 && (item.is_paused || !last->is_paused)) last = &item;
    }
    return *last;
  }

  int32_t RowsThatFit(const PlanItem& item) const {
    const int64_t n_tokens = int64_t{item.n_blocks + n_blocks_} * kv::kBlockTokens;
    return static_cast<int32_t>(
        std::clamp<int64_t>(n_tokens - item.n_run, 0, item.n_known - item.n_run));
  }

  bool AddRows(const PlanItem& item, int32_t n_rows) {
    const int32_t end = item.n_run + n_rows;
    const auto n_more =
        static_cast<int32_t>(std::max<int64_t>(0, kv::Layout::BlocksFor(end) - item.n_blocks));
    if (n_more > n_blocks_) return false;
    n_blocks_ -= n_more;
    plan_.parts.push_back({.slot = item.slot,
                           .begin = item.n_run,
                           .n_rows = n_rows,
                           .n_logits = std::max(0, end - FirstLogits(item, item.n_run)),
                           .draws = end == item.n_known});
    return true;
  }

  // Position of the first row from `begin` on that needs logits; so do all behind it.
  static int32_t FirstLogits(const PlanItem& item, int32_t begin) {
    return std::max(begin, item.n_known - 1 - item.n_scores);
  }

  // How many of the n_rows from `begin` on can run with the scores that are left, which it takes.
  int32_t TakeScores(const PlanItem& item, int32_t begin, int32_t n_rows) {
    const int32_t first = FirstLogits(item, begin);
    const int32_t n_wanted = std::max(0, std::min(begin + n_rows, item.n_known - 1) - first);
    const int32_t n_given = std::min(n_wanted, n_scores_);
    n_scores_ -= n_given;
    return n_given < n_wanted ? first + n_given - begin : n_rows;
  }

  // Rows of each prompt, before anybody looks at blocks.
  void ShareRows() {
    for (const PlanItem& item : items_) {
      if (item.may_run && !item.is_decoding) prompts_.push_back(&item);
    }
    if (prompts_.empty()) return;
    n_rows_.assign(prompts_.size(), 0);
    int32_t n_left = limits_.n_prompt_rows;
    const auto give = [&](size_t i, int32_t n_max) {
      const PlanItem& item = *prompts_[i];
      const int32_t begin = item.n_run + n_rows_[i];
      const int32_t n = TakeScores(item, begin, std::min({item.n_known - begin, n_max, n_left}));
      n_rows_[i] += n;
      n_left -= n;
    };
    give(0, (n_left + 1) / 2);
    std::vector<size_t> by_need(prompts_.size() - 1);
    for (size_t i = 0; i < by_need.size(); ++i) by_need[i] = i + 1;
    std::ranges::sort(by_need, {}, [&](size_t i) {
      return std::pair(prompts_[i]->n_known - prompts_[i]->n_run, i);
    });
    for (const size_t i : by_need) give(i, n_left);
    give(0, n_left);
  }

  const std::span<const PlanItem> items_;
  const StepLimits limits_;
  int32_t n_blocks_;  // left
  int32_t n_scores_;  // left
  std::vector<const PlanItem*> prompts_;
  std::vector<int32_t> n_rows_;  // of prompts_
  StepPlan plan_;
};

}  // namespace

StepPlan Plan(std::span<const PlanItem> items, const StepLimits& limits) {
  return StepBuilder(items, limits).Build();
}

}  // namespace sluice::engine
