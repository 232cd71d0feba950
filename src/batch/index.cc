#include "batch/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "base/sha256.h"
#include "batch/row.h"

namespace sluice::batch {
namespace {

using Digest = std::array<std::byte, 32>;

// Of one ReadMore: some milliseconds, so that progress can be shown.
constexpr int64_t kPieceBytes = 256 << 10;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

Digest DigestOf(std::string_view text) { return Sha256(std::as_bytes(std::span(text))); }

// Of all lines so far and one more.
Digest Chain(const Digest& before, const Digest& line) {
  std::array<std::byte, 64> both;
  std::ranges::copy(before, both.begin());
  std::ranges::copy(line, both.begin() + before.size());
  return Sha256(both);
}

}  // namespace

Index::Index(std::string_view input, const codec::PrepareContext& context, std::vector<bool> done)
    : input_(input), context_(context), done_(std::move(done)) {
  if (input_.starts_with(kByteOrderMark)) pos_ = std::ssize(kByteOrderMark);
  begins_.push_back(pos_);
}

Status Index::ReadMore() {
  const int64_t end = pos_ + kPieceBytes;
  while (pos_ < std::ssize(input_) && pos_ < end) {
    if (n_lines() >= limits::kMaxBatchRows) {
      return {ErrorCode::kTooLarge,
              fmt::format("more than {} lines; cut it into several files", limits::kMaxBatchRows)};
    }
    const size_t begin = static_cast<size_t>(pos_);
    const size_t line_end = std::min(input_.find('\n', begin), input_.size());
    pos_ = std::min<int64_t>(static_cast<int64_t>(line_end) + 1, std::ssize(input_));
    Take(input_.substr(begin, line_end - begin));
  }
  if (pos_ == std::ssize(input_)) Complete();
  return Status::Ok();
}

void Index::Take(std::string_view line) {
  const auto line_idx = static_cast<uint32_t>(n_lines());
  begins_.push_back(pos_);
  digest_ = Chain(digest_, DigestOf(line));
  if (IsBlank(line)) return;
  ++n_rows_;
  const Row row = ReadRow(line);
  if (!row.custom_id.empty()) {
    CustomId& id = custom_ids_.emplace_back();
    const Digest digest = DigestOf(row.custom_id);
    std::copy_n(digest.begin(), id.digest.size(), id.digest.begin());
    id.line_idx = line_idx;
  }
  if (line_idx < done_.size() && done_[line_idx]) return;
  // A row that is refused has no prompt: it comes first and is answered at once.
  Place place{.key = {}, .line_idx = line_idx};
  if (row.fault_code.empty()) {
    const Result<codec::Prepared> prepared = codec::Prepare(*row.dialect, row.body, context_);
    if (prepared) place.key = KeyOf(*prepared->generate.prompt);
  }
  places_.push_back(place);
}

// Of rows with one custom_id the first is the one that counts.
void Index::Complete() {
  is_complete_ = true;
  is_duplicate_.resize(static_cast<size_t>(n_lines()));
  std::ranges::sort(custom_ids_);
  for (size_t i = 1; i < custom_ids_.size(); ++i) {
    if (custom_ids_[i].digest == custom_ids_[i - 1].digest) {
      is_duplicate_[custom_ids_[i].line_idx] = true;
    }
  }
  custom_ids_ = {};
  std::ranges::sort(places_, [](const Place& a, const Place& b) {
    return std::tie(a.key, a.line_idx) < std::tie(b.key, b.line_idx);
  });
  order_.reserve(places_.size());
  for (const Place& place : places_) order_.push_back(place.line_idx);
  places_ = {};
  uint64_t number = 0;
  std::memcpy(&number, digest_.data(), sizeof(number));
  batch_id_ = fmt::format("{:016x}", number);
}

std::string_view Index::line(uint32_t line_idx) const {
  const int64_t begin = begins_[line_idx];
  std::string_view text =
      input_.substr(static_cast<size_t>(begin), static_cast<size_t>(begins_[line_idx + 1] - begin));
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

}  // namespace sluice::batch
