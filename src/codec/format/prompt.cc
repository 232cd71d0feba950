#include "codec/format/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "codec/turn_memory.h"
#include "token/bpe.h"

namespace sluice::codec {
namespace {

// Walks over the marks of a prompt, once.
class PromptEncoder {
 public:
  PromptEncoder(const Prompt& prompt, Format format) : prompt_(prompt), format_(format) {
    encoded_.ids.reserve(prompt.text.size() / 3 + prompt.marks.size());
  }

  // All up to the mark of this index.
  void AddUpTo(size_t mark_idx) {
    for (; mark_idx_ < mark_idx; ++mark_idx_) {
      const Prompt::Mark& mark = prompt_.marks[mark_idx_];
      AddText(mark.begin);
      if (mark.is_image) {
        encoded_.images.push_back(static_cast<int32_t>(encoded_.ids.size()));
      }
      encoded_.ids.push_back(format_.control(mark.control));
      text_at_ = mark.end;
    }
  }

  // And the text up to this byte: encoded as if it ended there, which Return takes back.
  void AddTextUpTo(size_t text_end) {
    n_ids_before_ = encoded_.ids.size();
    text_before_ = text_at_;
    AddText(text_end);
    text_at_ = text_end;
  }
  void Return() {
    encoded_.ids.resize(n_ids_before_);
    text_at_ = text_before_;
    n_chained_ids_ = std::min(n_chained_ids_, n_ids_before_);
  }

  // These ids stand for all up to the mark of this index.
  void Splice(std::span<const TokenId> ids, size_t mark_idx) {
    encoded_.ids.insert(encoded_.ids.end(), ids.begin(), ids.end());
    text_at_ = prompt_.marks[mark_idx - 1].end;
    mark_idx_ = mark_idx;
    ++encoded_.n_spliced;
  }

  // The digest of all so far.
  const Digest& Chain() {
    chained_.assign(prefix_.begin(), prefix_.end());
    for (; n_chained_images_ < encoded_.images.size(); ++n_chained_images_) {
      const Image& image = *prompt_.images[n_chained_images_];
      const std::string shown = fmt::format("{} {} {}", static_cast<int>(image.detail),
                                            static_cast<int>(image.is_url), image.source);
      const Digest digest = Sha256(std::as_bytes(std::span(shown)));
      chained_.insert(chained_.end(), digest.begin(), digest.end());
    }
    const auto ids = std::as_bytes(std::span(encoded_.ids).subspan(n_chained_ids_));
    chained_.insert(chained_.end(), ids.begin(), ids.end());
    n_chained_ids_ = encoded_.ids.size();
    return prefix_ = Sha256(chained_);
  }

  size_t n_ids() const { return encoded_.ids.size(); }
  void set_restored_reasoning(int32_t n) { encoded_.n_restored_reasoning = n; }

  EncodedPrompt Take() {
    AddUpTo(prompt_.marks.size());
    AddText(prompt_.text.size());
    return std::move(encoded_);
  }

 private:
  void AddText(size_t end) {
    if (end > text_at_) {
      format_.bpe().Encode(std::string_view(prompt_.text).substr(text_at_, end - text_at_),
                           encoded_.ids);
    }
  }

  const Prompt& prompt_;
  const Format format_;
  size_t mark_idx_ = 0;
  size_t text_at_ = 0;  // what stands before it is encoded
  size_t n_ids_before_ = 0;
  size_t text_before_ = 0;
  EncodedPrompt encoded_;

  Digest prefix_ = {};
  size_t n_chained_ids_ = 0;
  size_t n_chained_images_ = 0;
  std::vector<std::byte> chained_;  // scratch
};

}  // namespace

EncodedPrompt Encode(const Prompt& prompt, Format format, TurnMemory* memory, KeyId key) {
  PromptEncoder encoder(prompt, format);
  if (memory == nullptr) return encoder.Take();
  int32_t n_restored = 0;
  for (const Prompt::Turn& turn : prompt.turns) {
    encoder.AddUpTo(turn.begin.n_marks);
    encoder.AddTextUpTo(turn.begin.text_end);
    const TurnPlace place = {.key = key, .prefix = encoder.Chain()};
    // Sampled behind another mark it would be another turn.
    const auto first = turn.first ? std::optional(format.control(*turn.first)) : std::nullopt;
    const auto ids = memory->Find(place, *turn.message, first);
    if (ids) {
      encoder.Splice(*ids, turn.end);
      if (turn.lacks_reasoning) ++n_restored;
    } else {
      encoder.Return();  // tokens may go across the beginning of a turn that was not sampled
    }
  }
  encoder.set_restored_reasoning(n_restored);
  if (!prompt.answer) return encoder.Take();
  encoder.AddUpTo(prompt.answer->n_marks);
  encoder.AddTextUpTo(prompt.answer->text_end);
  TurnStart start;
  start.memory = memory;
  start.place = {.key = key, .prefix = encoder.Chain()};
  const auto n_before = static_cast<ptrdiff_t>(encoder.n_ids());
  EncodedPrompt encoded = encoder.Take();
  start.opening.assign(encoded.ids.begin() + n_before, encoded.ids.end());
  encoded.answer = std::move(start);
  return encoded;
}

}  // namespace sluice::codec
