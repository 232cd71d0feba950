// Tokens: text to ids and back.

#include <fmt/format.h>

#include "base/sha256.h"
#include "conformance/codec/cases.h"
#include "token/detokenizer.h"

namespace sluice::conformance {
namespace {

Json ListOf(const std::vector<TokenId>& ids) {
  Json list = Json::array();
  for (TokenId id : ids) list.push_back(id.value);
  return list;
}

std::vector<TokenId> IdsOf(const Json& list) {
  std::vector<TokenId> ids;
  for (const Json& id : list) ids.push_back(TokenId(id.get<int32_t>()));
  return ids;
}

Json PiecesOf(const std::vector<TokenId>& ids, const Json& sizes, const Suite& suite) {
  token::Detokenizer detokenizer(suite.format.vocabulary());
  std::vector<std::string> texts;
  for (size_t at = 0, i = 0; at < ids.size(); ++i) {
    size_t n = sizes[i % sizes.size()].get<size_t>();
    n = n == 0 ? ids.size() - at : std::min(n, ids.size() - at);
    detokenizer.Push(std::span(ids).subspan(at, n), texts);
    at += n;
  }
  if (std::string last = detokenizer.Finish(); !last.empty()) texts.push_back(last);
  return texts;
}

void AppendUtf8(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      out += static_cast<char>(0xE0 | c >> 12);
    } else {
      out += static_cast<char>(0xF0 | c >> 18);
      out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    }
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
  }
  if (c >= 0x80) out += static_cast<char>(0x80 | (c & 0x3F));
}

}  // namespace

Difference CheckTokenizer(const Json& c, const Suite& suite) {
  if (c["kind"] == "decode") {
    return DifferenceOf("pieces", c["pieces"], PiecesOf(IdsOf(c["ids"]), c["chunking"], suite));
  }
  std::vector<TokenId> ids, with_added;
  suite.format.bpe().Encode(c["text"].get<std::string>(), ids);
  suite.format.bpe().EncodeWithAdded(c["text"].get<std::string>(), with_added);
  Difference difference = DifferenceOf("ids", c["ids"], ListOf(ids));
  if (!difference.empty()) return difference;
  return DifferenceOf("ids_added", c.value("ids_added", c["ids"]), ListOf(with_added));
}

Difference CheckSweep(const Json& c, const Suite& suite) {
  std::string text;
  for (uint32_t point = c["first"]; point <= c["last"].get<uint32_t>(); ++point) {
    if (point >= 0xD800 && point < 0xE000) continue;
    text += ' ';
    AppendUtf8(point, text);
    text += "x\n";
  }
  std::vector<TokenId> ids;
  suite.format.bpe().Encode(text, ids);
  std::vector<uint32_t> values;  // little-endian, as every machine this runs on
  for (TokenId id : ids) values.push_back(static_cast<uint32_t>(id.value));
  std::string digest;
  for (const std::byte byte : Sha256(std::as_bytes(std::span(values)))) {
    digest += fmt::format("{:02x}", static_cast<unsigned>(byte));
  }
  Difference difference = DifferenceOf("n_tokens", c["n_tokens"], ids.size());
  if (!difference.empty()) return difference;
  return DifferenceOf("sha256", c["sha256"], digest);
}

}  // namespace sluice::conformance
