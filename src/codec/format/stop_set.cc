#include "codec/format/stop_set.h"

#include <algorithm>

namespace sluice::codec {
namespace {

// Bytes of `text` matched after `byte` came behind n_matched of them.
int32_t Step(std::string_view text,
             const std::vector<int32_t>& border,
             int32_t n_matched,
             char byte) {
  if (n_matched == static_cast<int32_t>(text.size())) n_matched = border[n_matched - 1];
  while (n_matched > 0 && text[n_matched] != byte) n_matched = border[n_matched - 1];
  return text[n_matched] == byte ? n_matched + 1 : 0;
}

}  // namespace

StopSet::StopSet(const std::vector<std::string>& stops) {
  stops_.reserve(stops.size());
  for (const std::string& text : stops) {
    std::vector<int32_t> border(text.size(), 0);
    for (size_t i = 1; i < text.size(); ++i) border[i] = Step(text, border, border[i - 1], text[i]);
    is_first_byte_[static_cast<uint8_t>(text[0])] = true;
    stops_.push_back({.text = text, .border = std::move(border)});
  }
}

bool StopSet::Contains(std::string_view stop) const {
  return std::ranges::any_of(stops_, [&](const Stop& s) { return s.text == stop; });
}

bool StopSet::MayBegin(std::string_view text) const {
  if (stops_.empty()) return false;
  return std::ranges::any_of(text, [&](char c) { return is_first_byte_[static_cast<uint8_t>(c)]; });
}

void StopSet::Restart(Progress& progress) const {
  progress.n_matched.assign(stops_.size(), 0);
  progress.n_held = 0;
}

int32_t StopSet::Advance(Progress& progress, char byte) const {
  int32_t found = 0;
  progress.n_held = 0;
  for (size_t i = 0; i < stops_.size(); ++i) {
    int32_t& n_matched = progress.n_matched[i];
    n_matched = Step(stops_[i].text, stops_[i].border, n_matched, byte);
    if (n_matched == static_cast<int32_t>(stops_[i].text.size()))
      found = std::max(found, n_matched);
    progress.n_held = std::max(progress.n_held, n_matched);
  }
  return found;
}

}  // namespace sluice::codec
