#include "base/json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/containers.h"
#include "base/json_scan_impl.h"
#include "base/json_writer.h"

namespace sluice {
namespace {

// One value or one key. A container is followed by its contents, so that a subtree is a run of
// nodes; a member is its key and then its value.
struct Node {
  JsonKind kind;
  uint32_t n_nodes;  // this one and all below it
  uint64_t payload;  // bool, integer, bits of a double, size of a container, or offset << 32 |
                     // length of a string
};

// simdjson's tape (its doc/tape.md): a word is a type byte above 56 bits of payload; numbers take a
// second word.
struct Tape {
  const uint64_t* words;
  const uint8_t* strings;

  char Type(uint32_t at) const { return static_cast<char>(words[at] >> 56); }
  uint64_t Payload(uint32_t at) const { return words[at] & ((uint64_t{1} << 56) - 1); }

  // Behind the value at `at`. The payload of a container's first word begins with the index behind
  // its last.
  uint32_t After(uint32_t at) const {
    switch (Type(at)) {
      case '[':
      case '{':
        return static_cast<uint32_t>(Payload(at));
      case 'l':
      case 'u':
      case 'd':
        return at + 2;
      default:
        return at + 1;
    }
  }

  // A string is stored as its length in four bytes and then its bytes.
  std::string_view String(uint32_t at) const {
    const uint8_t* p = strings + Payload(at);
    uint32_t n_bytes;
    std::memcpy(&n_bytes, p, sizeof(n_bytes));
    return {reinterpret_cast<const char*>(p) + sizeof(n_bytes), n_bytes};
  }
};

// Turns the tape into nodes. Members whose key comes again are resolved before their object is
// entered: values that do not count are never visited, so the cost stays linear however duplicates
// are nested.
class NodeBuilder {
 public:
  NodeBuilder(Tape tape, int32_t depth_max)
      : tape_(tape), depth_max_(static_cast<size_t>(depth_max)) {}

  // Empty when containers nest too deep: simdjson's own limit does not count those that are empty.
  std::vector<Node> Build() {
    constexpr uint32_t kRoot = 1;  // word 0 is the frame of the document
    Emit(kRoot);
    while (!open_.empty()) {
      if (open_.size() > depth_max_) return {};
      Advance();
    }
    return std::move(nodes_);
  }

 private:
  struct Member {
    uint32_t key, value;  // on the tape
  };
  struct Open {
    uint32_t node;
    uint32_t at, end;  // on the tape; of a resolved object, in members_
    bool is_object;
    bool is_resolved;   // had duplicate keys
    uint32_t n_before;  // members_ when it was opened
  };

  // The next element or member of the innermost container.
  void Advance() {
    Open& open = open_.back();
    if (open.at == open.end) return Close();
    ++nodes_[open.node].payload;
    Member next = {open.at, open.at};
    if (open.is_resolved) {
      next = members_[open.at++];
    } else {
      if (open.is_object) next.value = open.at + 1;
      open.at = tape_.After(next.value);
    }
    if (open.is_object) Emit(next.key);
    Emit(next.value);  // may move open_
  }

  void Close() {
    const Open& open = open_.back();
    nodes_[open.node].n_nodes = static_cast<uint32_t>(nodes_.size()) - open.node;
    members_.resize(open.n_before);
    open_.pop_back();
  }

  void Emit(uint32_t at) {
    uint64_t next_word = tape_.words[at + 1];  // the tape ends with a word that is no value
    switch (tape_.Type(at)) {
      case '{':
        return EmitContainer(at, JsonKind::kObject);
      case '[':
        return EmitContainer(at, JsonKind::kArray);
      case '"':
        return Add(JsonKind::kString, StringPayload(at));
      case 'l':
        return Add(JsonKind::kInt, next_word);
      case 'u':
        return Add(JsonKind::kUint, next_word);
      case 'd':
        return Add(JsonKind::kDouble, next_word);
      case 't':
        return Add(JsonKind::kBool, 1);
      case 'f':
        return Add(JsonKind::kBool, 0);
      default:
        return Add(JsonKind::kNull, 0);
    }
  }

  void Add(JsonKind kind, uint64_t payload) { nodes_.push_back({kind, 1, payload}); }

  uint64_t StringPayload(uint32_t at) const {
    std::string_view text = tape_.String(at);
    uint64_t offset =
        static_cast<uint64_t>(reinterpret_cast<const uint8_t*>(text.data()) - tape_.strings);
    return offset << 32 | text.size();
  }

  void EmitContainer(uint32_t at, JsonKind kind) {
    Open open = {.node = static_cast<uint32_t>(nodes_.size()),
                 .at = at + 1,
                 .end = tape_.After(at) - 1,
                 .is_object = kind == JsonKind::kObject,
                 .is_resolved = false,
                 .n_before = static_cast<uint32_t>(members_.size())};
    Add(kind, 0);
    if (open.is_object) {
      for (uint32_t key = open.at; key < open.end; key = tape_.After(key + 1)) {
        members_.push_back({key, key + 1});
      }
      open.is_resolved = ResolveDuplicates(open.n_before);
      if (open.is_resolved) {
        open.at = open.n_before;
        open.end = static_cast<uint32_t>(members_.size());
      } else {
        members_.resize(open.n_before);
      }
    }
    open_.push_back(open);
  }

  // Of the members from `begin` on: the last value of a key at the position of the first. False: no
  // key came twice.
  bool ResolveDuplicates(uint32_t begin) {
    const uint32_t n = static_cast<uint32_t>(members_.size()) - begin;
    Member* members = members_.data() + begin;
    constexpr uint32_t kFewMembers =
        12;  // most objects; comparing all pairs costs less than sorting
    if (n <= kFewMembers) {
      bool is_unique = true;
      for (uint32_t i = 1; i < n; ++i) {
        for (uint32_t j = 0; j < i; ++j) is_unique &= Key(members[i]) != Key(members[j]);
      }
      if (is_unique) return false;
    }
    // Sorting, not hashing: clients choose the keys, and could choose ones that collide.
    std::vector<uint32_t> order(n);
    for (uint32_t i = 0; i < n; ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      std::string_view x = Key(members[a]), y = Key(members[b]);
      if (x.size() != y.size()) return x.size() < y.size();
      int by_bytes = x.compare(y);
      return by_bytes != 0 ? by_bytes < 0 : a < b;
    });
    bool found = false;
    for (uint32_t i = 0, first = 0; i + 1 < n; ++i) {
      bool same = Key(members[order[first]]) == Key(members[order[i + 1]]);
      if (!same) {
        first = i + 1;
        continue;
      }
      found = true;
      members[order[first]].value = members[order[i + 1]].value;
      members[order[i + 1]].value = kDropped;
    }
    if (!found) return false;
    auto is_dropped = [](const Member& m) { return m.value == kDropped; };
    members_.erase(std::remove_if(members_.begin() + begin, members_.end(), is_dropped),
                   members_.end());
    return true;
  }

  std::string_view Key(const Member& member) const { return tape_.String(member.key); }

  static constexpr uint32_t kDropped = 0;

  const Tape tape_;
  const size_t depth_max_;
  std::vector<Node> nodes_;
  std::vector<Open> open_;
  std::vector<Member> members_;  // of the open objects that had duplicate keys
};

// No text has more values: each but the first follows one of these characters.
bool MayExceed(std::string_view text, int64_t n_values_max) {
  if (static_cast<int64_t>(text.size() / 2) < n_values_max) return false;
  auto n = std::count_if(text.begin(), text.end(),
                         [](char c) { return c == ',' || c == '[' || c == '{'; });
  return n + 1 > n_values_max;
}

// Whether there may be an integer -0, which simdjson reads as 0 while it is -0.0. Often enough "-0"
// is part of a date.
bool MayHaveMinusZero(std::string_view text) {
  for (size_t at = text.find("-0"); at != std::string_view::npos; at = text.find("-0", at + 2)) {
    bool begins =
        at == 0 || std::string_view(":,[ \n\r\t").find(text[at - 1]) != std::string_view::npos;
    bool ends = at + 2 == text.size() ||
                std::string_view(",]} \n\r\t").find(text[at + 2]) != std::string_view::npos;
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

struct Json::Document {
  std::vector<Node> nodes;
  std::unique_ptr<uint8_t[]> strings;

  // Null when simdjson refuses the text, or it nests too deep.
  static std::unique_ptr<Document> Read(std::string_view text, int32_t depth_max);
};

std::unique_ptr<Json::Document> Json::Document::Read(std::string_view text, int32_t depth_max) {
  simdjson::dom::parser parser;
  simdjson::dom::document doc;
  // It refuses the depth that is equal to its limit.
  if (parser.allocate(text.size(), static_cast<size_t>(depth_max) + 1) != simdjson::SUCCESS)
    return nullptr;
  // Copies the text behind padding of its own: it never reads past ours.
  if (parser.parse_into_document(doc, text.data(), text.size()).error() != simdjson::SUCCESS)
    return nullptr;
  const Tape tape = {.words = doc.tape.get(), .strings = doc.string_buf.get()};
  auto document = std::make_unique<Document>();
  document->nodes = NodeBuilder(tape, depth_max).Build();
  if (document->nodes.empty()) return nullptr;
  document->strings = std::move(doc.string_buf);
  return document;
}

Json::Json(std::unique_ptr<Document> document) : document_(std::move(document)) {}
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Result<Json> Json::Parse(std::string_view text, const Limits& limits) {
  constexpr int64_t kTextBytesMax = kGiB;  // offsets of strings are 32 bits
  SLUICE_CHECK(limits.text_bytes <= kTextBytesMax && limits.depth > 0 && limits.values > 0);
  if (static_cast<int64_t>(text.size()) > limits.text_bytes) {
    return Status::Invalid(fmt::format("JSON text of {} bytes, at most {} are allowed", text.size(),
                                       limits.text_bytes));
  }
  const bool needs_scan = text.empty() || MayExceed(text, limits.values) || MayHaveMinusZero(text);
  if (!needs_scan) {
    if (std::unique_ptr<Document> document = Document::Read(text, limits.depth))
      return Json(std::move(document));
  }
  JsonScan scan = ScanJson(text, limits.depth, limits.values);
  if (scan.error) {
    return Status::Invalid(
        fmt::format("invalid JSON at byte {}: {}", scan.error->offset, scan.error->what));
  }
  std::unique_ptr<Document> document =
      Document::Read(scan.rewritten ? *scan.rewritten : text, limits.depth);
  if (document == nullptr) return Status::Invalid("invalid JSON");
  return Json(std::move(document));
}

const char* NameOf(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return "a boolean";
    case JsonKind::kInt:
    case JsonKind::kUint:
      return "an integer";
    case JsonKind::kDouble:
      return "a number";
    case JsonKind::kString:
      return "a string";
    case JsonKind::kArray:
      return "an array";
    case JsonKind::kObject:
      return "an object";
  }
  return "";
}

JsonKind JsonValue::kind() const {
  SLUICE_CHECK(exists());
  return doc_->document_->nodes[node_].kind;
}

uint64_t JsonValue::Payload(JsonKind expected) const {
  SLUICE_CHECK(is(expected));
  return doc_->document_->nodes[node_].payload;
}

bool JsonValue::AsBool() const { return Payload(JsonKind::kBool) != 0; }
int64_t JsonValue::AsInt64() const { return static_cast<int64_t>(Payload(JsonKind::kInt)); }
uint64_t JsonValue::AsUint64() const { return Payload(JsonKind::kUint); }

double JsonValue::AsDouble() const {
  if (is(JsonKind::kInt)) return static_cast<double>(AsInt64());
  if (is(JsonKind::kUint)) return static_cast<double>(AsUint64());
  return std::bit_cast<double>(Payload(JsonKind::kDouble));
}

std::string_view JsonValue::AsString() const {
  uint64_t place = Payload(JsonKind::kString);
  const uint8_t* strings = doc_->document_->strings.get();
  return {reinterpret_cast<const char*>(strings + (place >> 32)), static_cast<uint32_t>(place)};
}

int32_t JsonValue::size() const {
  return is_array() || is_object() ? static_cast<int32_t>(Payload(kind())) : 0;
}

JsonValue JsonValue::Find(std::string_view key) const {
  for (JsonMember member : members()) {
    if (member.key == key) return member.value;
  }
  return JsonValue();
}

MemberRange JsonValue::members() const {
  if (!is_object()) return {{doc_, node_}, {doc_, node_}};
  return {{doc_, node_ + 1}, {doc_, node_ + doc_->document_->nodes[node_].n_nodes}};
}

ElementRange JsonValue::elements() const {
  if (!is_array()) return {{doc_, node_}, {doc_, node_}};
  return {{doc_, node_ + 1}, {doc_, node_ + doc_->document_->nodes[node_].n_nodes}};
}

ElementIterator& ElementIterator::operator++() {
  node_ += doc_->document_->nodes[node_].n_nodes;
  return *this;
}

JsonMember MemberIterator::operator*() const {
  return {JsonValue(doc_, node_).AsString(), JsonValue(doc_, node_ + 1)};
}

MemberIterator& MemberIterator::operator++() {
  node_ += 1 + doc_->document_->nodes[node_ + 1].n_nodes;
  return *this;
}

void JsonValue::WriteScalar(JsonWriter& writer) const {
  switch (kind()) {
    case JsonKind::kNull:
      writer.Null();
      return;
    case JsonKind::kBool:
      writer.Bool(AsBool());
      return;
    case JsonKind::kInt:
      writer.Int(AsInt64());
      return;
    case JsonKind::kUint:
      writer.Uint(AsUint64());
      return;
    case JsonKind::kDouble:
      writer.Double(AsDouble());
      return;
    case JsonKind::kString:
      writer.String(AsString());
      return;
    case JsonKind::kArray:
    case JsonKind::kObject:
      break;
  }
  SLUICE_CHECK(false);
}

std::string JsonValue::ToText() const {
  struct Open {
    uint32_t end;  // node behind the container
    bool is_object;
  };
  SLUICE_CHECK(exists());
  const std::vector<Node>& nodes = doc_->document_->nodes;
  std::string out;
  JsonWriter writer(out);
  SmallVec<Open, 16> open;
  const uint32_t end = node_ + nodes[node_].n_nodes;
  for (uint32_t at = node_; at < end;) {
    if (!open.empty() && open.back().is_object) writer.Key(JsonValue(doc_, at++).AsString());
    JsonValue value(doc_, at);
    if (value.is_object() || value.is_array()) {
      open.push_back({at + nodes[at].n_nodes, value.is_object()});
      value.is_object() ? writer.Object() : writer.Array();
    } else {
      value.WriteScalar(writer);
    }
    ++at;
    for (; !open.empty() && open.back().end == at; open.pop_back()) {
      open.back().is_object ? writer.EndObject() : writer.EndArray();
    }
  }
  return out;
}

}  // namespace sluice
