#include "codec/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codec/format/chatml/format.h"
#include "codec/format/chatml/render.h"
#include "codec/format/deepseek_v41/format.h"
#include "codec/format/deepseek_v41/render.h"
#include "codec/format/prompt.h"

namespace sluice::codec {
namespace {

// "control tokens <|im_start|>, …" that tell the families of ChatML apart.
std::optional<chatml::Family> FamilyOf(const token::Vocabulary& vocabulary,
                                       std::string_view architecture) {
  const auto has = [&](std::string_view spelling) {
    return vocabulary.FindControl(spelling).has_value();
  };
  if (!has("<|im_start|>") || !has("<|im_end|>") || !has("<|endoftext|>")) return std::nullopt;
  const auto is_of = [&](std::string_view name) {
    return architecture.empty() || architecture == name;
  };
  if (vocabulary.rules() == token::TextRules::kSmollm && is_of("llama")) {
    return chatml::Family::kSmollm2;
  }
  // Earlier models of the line have no mark of calls, later ones think.
  const bool is_qwen25 = has("<tool_call>") && !has("<think>");
  if (vocabulary.rules() == token::TextRules::kQwen2 && is_of("qwen2") && is_qwen25) {
    return chatml::Family::kQwen25;
  }
  return std::nullopt;
}

Result<OwnedFormat> MakeChatml(token::Vocabulary vocabulary,
                               chatml::Family family,
                               const FormatChoice& choice) {
  SLUICE_TRY(auto format, chatml::Format::Make(std::move(vocabulary), family, choice.begin));
  return OwnedFormat(std::move(format));
}

Result<OwnedFormat> MakeDeepseek(token::Vocabulary vocabulary) {
  SLUICE_TRY(auto format, deepseek_v41::Format::Make(std::move(vocabulary)));
  return OwnedFormat(std::move(format));
}

}  // namespace

std::string_view Format::name() const {
  if (const auto* const* chatml = std::get_if<const chatml::Format*>(&format_)) {
    return chatml::NameOf((*chatml)->family());
  }
  return kFormatNames[static_cast<size_t>(FormatName::kDeepseekV41)];
}

const token::Vocabulary& Format::vocabulary() const {
  return std::visit([](const auto* f) -> const token::Vocabulary& { return f->vocabulary(); },
                    format_);
}

const token::Bpe& Format::bpe() const {
  return std::visit([](const auto* f) -> const token::Bpe& { return f->bpe(); }, format_);
}

int32_t Format::n_tokens() const { return vocabulary().size(); }
std::string_view Format::text(TokenId id) const { return vocabulary().text(id); }

TokenId Format::control(uint8_t control) const {
  if (const auto* const* chatml = std::get_if<const chatml::Format*>(&format_)) {
    return *(*chatml)->control(static_cast<chatml::Control>(control));
  }
  return std::get<const deepseek_v41::Format*>(format_)->control(
      static_cast<deepseek_v41::Control>(control));
}

std::span<const TokenId> Format::ends() const {
  return std::visit([](const auto* f) { return f->ends(); }, format_);
}

bool Format::is_end(TokenId id) const { return std::ranges::find(ends(), id) != ends().end(); }

std::span<const TokenId> Format::stray() const {
  return std::visit([](const auto* f) { return f->stray(); }, format_);
}

std::optional<TokenId> Format::begin() const {
  if (const auto* const* chatml = std::get_if<const chatml::Format*>(&format_)) {
    return (*chatml)->begin();
  }
  return control(static_cast<uint8_t>(deepseek_v41::Control::kBegin));
}

wire::SamplingParams Format::sampling() const {
  const auto* const* chatml = std::get_if<const chatml::Format*>(&format_);
  if (chatml == nullptr) return {};
  const chatml::Words& words = chatml::WordsOf((*chatml)->family());
  return {.temperature = words.temperature,
          .top_p = words.top_p,
          .repetition_penalty = words.repetition_penalty,
          .top_k = words.top_k};
}

bool Format::thinks() const { return std::holds_alternative<const deepseek_v41::Format*>(format_); }
bool Format::fills_in() const { return thinks(); }

Prompt Format::Render(const Conversation& conversation, const Profile& profile) const {
  if (const auto* const* chatml = std::get_if<const chatml::Format*>(&format_)) {
    return chatml::Render(conversation, **chatml);
  }
  return deepseek_v41::Render(conversation, profile);
}

std::string Format::CallsOpening(const Conversation& conversation) const {
  if (const auto* const* chatml = std::get_if<const chatml::Format*>(&format_)) {
    return chatml::CallsOpening(conversation, (*chatml)->family());
  }
  return deepseek_v41::OpensCalls(conversation) ? "<｜DSML｜ calls>" : "";
}

OwnedFormat::OwnedFormat(std::unique_ptr<const deepseek_v41::Format> format)
    : format_(std::move(format)) {}
OwnedFormat::OwnedFormat(std::unique_ptr<const chatml::Format> format)
    : format_(std::move(format)) {}
OwnedFormat::OwnedFormat(OwnedFormat&&) noexcept = default;
OwnedFormat::~OwnedFormat() = default;

Format OwnedFormat::get() const {
  return std::visit([](const auto& f) { return Format(*f); }, format_);
}

Result<OwnedFormat> MakeFormat(token::Vocabulary vocabulary, const FormatChoice& choice) {
  switch (choice.name) {
    case FormatName::kAuto:
      break;
    case FormatName::kDeepseekV41:
      return MakeDeepseek(std::move(vocabulary));
    case FormatName::kSmollm2:
      return MakeChatml(std::move(vocabulary), chatml::Family::kSmollm2, choice);
    case FormatName::kQwen25:
      return MakeChatml(std::move(vocabulary), chatml::Family::kQwen25, choice);
  }
  if (vocabulary.rules() == token::TextRules::kDeepseekV3) {
    return MakeDeepseek(std::move(vocabulary));
  }
  if (const auto family = FamilyOf(vocabulary, choice.architecture)) {
    return MakeChatml(std::move(vocabulary), *family, choice);
  }
  return Status(
      ErrorCode::kUnsupported,
      fmt::format(
          "no chat format is known for the architecture {} with this tokenizer; known are "
          "deepseek-v4.1, smollm2 (llama, smollm, <|im_start|>, <|im_end|>) and qwen2.5 "
          "(qwen2, qwen2, <|im_start|>, <|im_end|>, <tool_call>, no <think>); --chat-format "
          "takes one all the same",
          choice.architecture.empty() ? "(not told)" : choice.architecture));
}

}  // namespace sluice::codec
