#include "codec/format/output_writer.h"

#include <algorithm>

namespace sluice::codec {

OutputWriter::OutputWriter(const Params& params) : events_(params.ids) {
  if (!params.spec.logprobs) return;
  visible_.emplace(params.vocabulary, params.spec.prompt_scores.in_echo);
}

void OutputWriter::Clear() {
  events_.Clear();
  if (visible_) visible_->Forget();
}

void OutputWriter::Read(TokenId token, const wire::TokenLogprob* logprob) {
  if (visible_) visible_->Read(token, logprob);
  ++n_read_;
}

void OutputWriter::Show(OutputKind kind, const Character& c) {
  events_.Add(kind, c.text());
  if (visible_) visible_->Show(kind, c.first_token, c.last_token);
}

void OutputWriter::Show(const ContentFilter::Item& item) {
  if (!item.is_filler) return Show(OutputKind::kContent, item.character);
  events_.Add(OutputKind::kContent, " ");
}

void OutputWriter::ShowToken(OutputKind kind, std::string_view text) {
  events_.Add(kind, text);
  if (visible_) visible_->Show(kind, last_token(), last_token());
}

void OutputWriter::Finish(OutputEnd ended, int32_t n_tokens) {
  ended_ = ended;
  n_tokens_at_end_ = n_tokens;
}

std::span<const OutputEvent> OutputWriter::Events(int32_t first_held_token) {
  if (!visible_) return events_.Events(nullptr);
  visible_->DropBefore(std::min(first_held_token, n_read_));
  return events_.Events(&*visible_);
}

}  // namespace sluice::codec
