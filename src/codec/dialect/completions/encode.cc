// hop 10 of 10: after Commit, before Write.
//
// OnEvent writes one chunk of text. There is no reasoning and no call: the prompt is the client's.

#include "codec/dialect/completions/encode.h"

#include <fmt/format.h>

#include <utility>

#include "base/json_writer.h"
#include "codec/dialect/error_body.h"
#include "codec/dialect/logprobs.h"
#include "codec/dialect/openai_usage.h"

namespace sluice::codec::completions {
namespace {

const char* NameOf(codec::Finish finish) {
  if (finish == codec::Finish::kLength) return "length";
  return finish == codec::Finish::kContentFilter ? "content_filter" : "stop";
}

int64_t CountChars(std::string_view text) {
  int64_t n = 0;
  for (char c : text) n += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return n;
}

void AppendToList(std::string_view value, std::string& list) {
  if (!list.empty()) list += ',';
  list += value;
}

}  // namespace

Encoder::Encoder(const AnswerSpec& spec, const AnswerIdentity& identity) : spec_(spec) {
  choices_.resize(static_cast<size_t>(spec.n_choices));
  JsonWriter w(head_);
  w.Object();
  w.Key("id").String("cmpl-" + identity.id);
  w.Key("object").String("text_completion");
  w.Key("created").Int(identity.created.whole_seconds());
  w.Key("model").String(spec.model);
  w.Key("system_fingerprint").String(identity.fingerprint);
}

void Encoder::Begin(int32_t choice, const wire::Usage&, std::string& out) {
  if (spec_.echo.empty()) return;
  Choice& c = choices_[static_cast<size_t>(choice)];
  c.n_chars += CountChars(spec_.echo);
  if (spec_.stream) return AppendChunk(choice, spec_.echo, "null", out);
  c.text = spec_.echo;
  held_bytes_ += std::ssize(spec_.echo);
}

void Encoder::OnEvent(int32_t choice, const OutputEvent& event, std::string& out) {
  if (event.kind != OutputKind::kContent && event.kind != OutputKind::kReasoning) return;
  Choice& c = choices_[static_cast<size_t>(choice)];
  if (spec_.stream) {
    Logprobs logprobs;
    if (spec_.logprobs) Collect(event, c, logprobs);
    return AppendChunk(choice, event.text, spec_.logprobs ? ObjectOf(logprobs) : "null", out);
  }
  const int64_t n_before = c.logprobs.n_bytes();
  if (spec_.logprobs) Collect(event, c, c.logprobs);
  c.text += event.text;
  held_bytes_ += std::ssize(event.text) + c.logprobs.n_bytes() - n_before;
}

void Encoder::OnPrompt(int32_t choice, const PromptPiece& piece, std::string& out) {
  const PromptScores& wanted = spec_.prompt_scores;
  Choice& c = choices_[static_cast<size_t>(choice)];
  if (wanted.n_top) {
    const int64_t n_before = std::ssize(c.prompt_logprobs);
    AppendPromptLogprobs(piece.tokens, *wanted.n_top, c.prompt_logprobs);
    held_bytes_ += std::ssize(c.prompt_logprobs) - n_before;
  }
  if (!wanted.in_echo || piece.tokens.back().pos < wanted.n_ours) return;
  if (spec_.stream) {
    Logprobs logprobs;
    CollectPrompt(piece, c, logprobs);
    return AppendChunk(choice, piece.text, ObjectOf(logprobs), out);
  }
  const int64_t n_before = c.logprobs.n_bytes();
  CollectPrompt(piece, c, c.logprobs);
  c.text += piece.text;
  held_bytes_ += std::ssize(piece.text) + c.logprobs.n_bytes() - n_before;
}

// What stands in front of the client's own tokens is left out, and the first of these has no score
// even if it does: clients look for a null there.
void Encoder::CollectPrompt(const PromptPiece& piece, Choice& choice, Logprobs& into) const {
  for (const PromptToken& token : piece.tokens) {
    if (token.pos < spec_.prompt_scores.n_ours) continue;
    std::string text;
    AppendTokenText(token.text, text);
    AppendToList(text, into.tokens);
    AppendToList(fmt::to_string(choice.n_chars), into.offsets);
    choice.n_chars += CountChars(token.text);
    if (token.pos == spec_.prompt_scores.n_ours || token.score == nullptr) {
      AppendToList("null", into.values);
      AppendToList("null", into.tops);
      continue;
    }
    AppendToList(fmt::to_string(ShownLogprob(token.score->logprob)), into.values);
    std::string top;
    const auto& others = token.score->alternatives;
    for (size_t i = 0; i < others.size() && std::cmp_less(i, spec_.n_top_logprobs); ++i) {
      std::string entry;
      AppendTokenText(token.others[i], entry);
      AppendToList(entry + ':' + fmt::to_string(ShownLogprob(others[i].logprob)), top);
    }
    AppendToList('{' + top + '}', into.tops);
  }
}

void Encoder::Collect(const OutputEvent& event, Choice& choice, Logprobs& into) const {
  for (const TokenText& token : event.logprobs) {
    std::string text, top;
    AppendTokenText(token.text, text);
    AppendToList(text, into.tokens);
    AppendToList(fmt::to_string(ShownLogprob(token.logprob)), into.values);
    for (const TokenText::Alternative& other : token.alternatives) {
      std::string entry;
      AppendTokenText(other.text, entry);
      AppendToList(entry + ':' + fmt::to_string(ShownLogprob(other.logprob)), top);
    }
    AppendToList('{' + top + '}', into.tops);
    AppendToList(fmt::to_string(choice.n_chars), into.offsets);
    choice.n_chars += CountChars(token.text);
  }
}

std::string Encoder::ObjectOf(const Logprobs& logprobs) {
  return fmt::format(
      "{{\"tokens\":[{}],\"token_logprobs\":[{}],\"top_logprobs\":[{}],\"text_offset\":[{}]}}",
      logprobs.tokens, logprobs.values, logprobs.tops, logprobs.offsets);
}

// One frame up to its finish. `logprobs`: a JSON value.
void Encoder::AppendChunk(int32_t choice,
                          std::string_view text,
                          std::string_view logprobs,
                          std::string& out) const {
  out += "data: ";
  out += head_;
  out += fmt::format(",\"choices\":[{{\"index\":{},\"text\":\"", choice);
  AppendJsonEscaped(out, text);
  out += "\",\"logprobs\":";
  out += logprobs;
  out += ",\"finish_reason\":null";
  out += spec_.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n";
}

void Encoder::End(int32_t choice,
                  const ChoiceEnd& end,
                  const wire::Usage* usage,
                  std::string& out) {
  const char* reason = NameOf(end.finish);
  choices_[static_cast<size_t>(choice)].finish_reason = reason;
  if (!spec_.stream) return;
  out += "data: ";
  out += head_;
  out += fmt::format(
      ",\"choices\":[{{\"index\":{},\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"{}\"}}]",
      choice, reason);
  if (usage != nullptr) {
    out += ",\"usage\":";
    AppendOpenAiUsage(*usage, {.with_reasoning = false}, out);
  } else if (spec_.include_usage) {
    out += ",\"usage\":null";
  }
  out += "}\n\n";
}

void Encoder::Finish(const wire::Usage& usage, std::string& out) {
  if (spec_.stream) {
    if (spec_.include_usage && spec_.profile.usage_chunk) {
      out += "data: ";
      out += head_;
      out += ",\"choices\":[],\"usage\":";
      AppendOpenAiUsage(usage, {.with_reasoning = false}, out);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
    return;
  }
  out.reserve(out.size() + static_cast<size_t>(held_bytes_));  // escapes and braces come on top
  out += head_;
  out += ",\"choices\":[";
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& c = choices_[i];
    if (i > 0) out += ',';
    out += fmt::format("{{\"index\":{},\"text\":\"", i);
    AppendJsonEscaped(out, c.text);
    out += "\",\"logprobs\":";
    out += spec_.logprobs ? ObjectOf(c.logprobs) : "null";
    out += fmt::format(",\"finish_reason\":\"{}\"", c.finish_reason);
    if (spec_.prompt_scores.n_top) {
      out += fmt::format(",\"prompt_logprobs\":[{}]", c.prompt_logprobs);
    }
    out += '}';
  }
  out += "],\"usage\":";
  AppendOpenAiUsage(usage, {.with_reasoning = false}, out);
  out += '}';
}

void Encoder::Heartbeat(std::string& out) const {
  // White space in front of a JSON body is legal; a comment line keeps an event stream alive.
  out += spec_.stream ? ": keep-alive\n\n" : "\n";
}

void Encoder::Fail(const Status& status, std::string_view request_id, std::string& out) const {
  // As on Chat: the SDKs raise at the object, and no [DONE] makes a cut answer look complete.
  if (spec_.stream) out += "data: ";
  out += OpenAiErrorBody(status, request_id);
  if (spec_.stream) out += "\n\n";
}

}  // namespace sluice::codec::completions
