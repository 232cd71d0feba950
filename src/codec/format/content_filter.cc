#include "codec/format/content_filter.h"

#include <algorithm>

namespace sluice::codec {

ContentFilter::ContentFilter(const AnswerSpec& spec, const StopSet& stops) : stops_(stops) {
  if (spec.is_json) json_.emplace(spec.profile.json_filler_spaces);
  Restart();
}

void ContentFilter::Take(const Character& c, std::vector<Item>& out) {
  if (!json_) return FindStops(c, out);
  json_items_.clear();
  json_->Take(c, json_items_);
  PassJson(out);
}

void ContentFilter::End(std::vector<Item>& out) {
  if (json_) {
    json_items_.clear();
    json_->End(json_items_);
    PassJson(out);
  }
  Release(out);
  Restart();
}

// Filler keeps one place for each token.
void ContentFilter::PassJson(std::vector<Item>& out) {
  for (const Item& item : json_items_) {
    if (!item.is_filler) {
      FindStops(item.character, out);
    } else if (item.character.first_token != last_filler_token_) {
      out.push_back(item);
      last_filler_token_ = item.character.first_token;
    }
  }
}

void ContentFilter::FindStops(const Character& c, std::vector<Item>& out) {
  if (has_stopped()) return;
  if (stops_.empty()) return out.push_back({c, /*is_filler=*/false});
  held_.push_back(c);
  n_held_bytes_ += c.n_bytes;
  int32_t n_found = 0;  // stop strings end where characters end
  for (int32_t i = 0; i < c.n_bytes; ++i) n_found = stops_.Advance(progress_, c.bytes[i]);
  Release(n_found > 0 ? n_found : progress_.n_held, out);
  if (n_found == 0) return;
  for (const Character& h : held_) stop_string_ += h.text();
  held_.clear();
  n_held_bytes_ = 0;
  n_tokens_at_stop_ = c.last_token + 1;
}

void ContentFilter::Release(std::vector<Item>& out) { Release(0, out); }

void ContentFilter::Release(int32_t n_keep_bytes, std::vector<Item>& out) {
  auto kept = held_.begin();
  for (; n_held_bytes_ > n_keep_bytes; ++kept) {
    n_held_bytes_ -= kept->n_bytes;
    out.push_back({*kept, /*is_filler=*/false});
  }
  held_.erase(held_.begin(), kept);
}

int32_t ContentFilter::first_held_token() const {
  const int32_t first = FirstTokenOf(held_);
  return json_ ? std::min(first, json_->first_held_token()) : first;
}

}  // namespace sluice::codec
