// ContentFilter: what of the content of an answer is shown. Of one that is to be JSON that is its
// JSON (json_filter.h), of any other all of it, up to the stop string that comes first: of several
// that are complete at once the longest. Content is held back only while it may be the beginning of
// a stop string. Owned by its lexer.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/conversation.h"
#include "codec/format/character.h"
#include "codec/format/json_filter.h"
#include "codec/format/stop_set.h"

namespace sluice::codec {

class ContentFilter {
 public:
  using Item = JsonFilter::Item;

  // `stops`, those of spec.stops, outlives the filter.
  ContentFilter(const AnswerSpec& spec, const StopSet& stops);

  // Appends what can be shown.
  void Take(const Character& c, std::vector<Item>& out);
  // Content ends here, and no stop string goes on behind it: appends all that is held.
  void End(std::vector<Item>& out);
  // Appends what is held of stop strings. They are still searched as if it were.
  void Release(std::vector<Item>& out);
  // Of stop strings nothing has come yet.
  void Restart() { stops_.Restart(progress_); }

  // False: this text would be shown as it is and at once.
  bool may_hold(std::string_view text) const {
    return json_ || holds_content() || stops_.MayBegin(text);
  }
  bool holds_content() const { return n_held_bytes_ > 0; }
  // kNoToken: nothing is held.
  int32_t first_held_token() const;

  bool finds_json() const { return json_.has_value(); }
  // Within the JSON everything is text.
  bool is_inside_json() const { return json_ && json_->is_inside(); }

  // A stop string was found. Nothing that follows it is shown.
  bool has_stopped() const { return !stop_string_.empty(); }
  std::string_view stop_string() const { return stop_string_; }
  int32_t n_tokens_at_stop() const { return n_tokens_at_stop_; }  // with that of its last byte

 private:
  void PassJson(std::vector<Item>& out);
  void FindStops(const Character& c, std::vector<Item>& out);
  void Release(int32_t n_keep_bytes, std::vector<Item>& out);

  const StopSet& stops_;

  std::optional<JsonFilter> json_;
  std::vector<Item> json_items_;    // scratch
  int32_t last_filler_token_ = -1;  // whose place was kept

  std::vector<Character> held_;  // may be the beginning of a stop string
  int32_t n_held_bytes_ = 0;
  StopSet::Progress progress_;
  std::string stop_string_;
  int32_t n_tokens_at_stop_ = 0;
};

}  // namespace sluice::codec
