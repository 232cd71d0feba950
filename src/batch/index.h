// Index: what is kept of a batch's input while it runs: where its lines are, which of them repeat a
// custom_id, in which order rows run, and the digest that names the batch. The lines themselves
// stay in the file.
//
// Owned by one thread. The input, a mapped file, and what the context refers to outlive it.
//
// 1. Memory is bounded by limits::kMaxBatchRows: about 100 bytes a line while it reads, 13 after.
// 2. Which batch it is depends on every byte of every line, and on nothing else.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "batch/order.h"
#include "codec/dialect.h"

namespace sluice::batch {

class Index {
 public:
  // `done[i]`: line i needs no place in the order. The context takes no lines of a script.
  Index(std::string_view input, const codec::PrepareContext& context, std::vector<bool> done);

  // Until complete(): reads some lines on.
  Status ReadMore();
  bool complete() const { return is_complete_; }
  int64_t read_bytes() const { return pos_; }

  // Once complete. Lines are counted from 0; blank ones are no rows.
  int64_t n_lines() const { return static_cast<int64_t>(begins_.size()) - 1; }
  int64_t n_rows() const { return n_rows_; }
  std::string_view line(uint32_t line_idx) const;
  bool is_duplicate(uint32_t line_idx) const { return is_duplicate_[line_idx]; }
  std::span<const uint32_t> order() const { return order_; }  // of the rows that are not done
  const std::string& batch_id() const { return batch_id_; }   // 16 hexadecimal digits

 private:
  struct Place {
    PrefixKey key;
    uint32_t line_idx;
  };
  struct CustomId {
    std::array<std::byte, 16> digest;
    uint32_t line_idx;
    friend auto operator<=>(const CustomId&, const CustomId&) = default;
  };

  void Take(std::string_view line);
  void Complete();

  // Constant after construction.
  const std::string_view input_;
  const codec::PrepareContext context_;
  const std::vector<bool> done_;

  int64_t pos_ = 0;
  bool is_complete_ = false;
  int64_t n_rows_ = 0;
  std::vector<int64_t> begins_;  // of lines, and behind the last one
  std::vector<bool> is_duplicate_;
  std::vector<uint32_t> order_;
  std::array<std::byte, 32> digest_ = {};  // of the lines so far
  std::string batch_id_;

  // While it reads.
  std::vector<Place> places_;
  std::vector<CustomId> custom_ids_;
};

}  // namespace sluice::batch
