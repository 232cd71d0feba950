// TagReader: the attributes of a tag of a call, read from behind the tag's name up to its `>`, as
// sloppily as models write them: any order, either quote or none, attributes nobody knows. A quote
// ends a value only where a tag can go on: `name="a"b" string=` names `a"b`. Bounded. Owned by its
// reader.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::codec::deepseek_v41 {

class TagReader {
 public:
  struct Attribute {
    std::string value;
    bool is_there = false;
    bool is_closed = false;  // all of its value has been read
  };

  void Restart();
  // One character. True: it was the `>` that ends the tag.
  bool Take(std::string_view character);

  // The tag was cut off: what was read so far. A quote at the end closes its value.
  void Cut();

  const Attribute& name() const { return name_; }
  const Attribute& string() const { return string_; }

 private:
  static constexpr size_t kMaxValueBytes = 16'384;  // the rest is dropped
  static constexpr size_t kMaxAttributeBytes = 64;

  enum class State : uint8_t { kOutside, kAttribute, kEquals, kQuoted, kQuoteSeen, kBare };
  enum class Ahead : uint8_t { kUndecided, kNoEnd, kAttribute, kTagEnd };

  bool TakeBehindQuote(std::string_view character);
  Ahead LookAhead() const;
  void BeginValue();
  void EndValue(State next);
  void Append(std::string_view text);

  State state_ = State::kOutside;
  std::string attribute_;
  std::string ahead_;  // what followed a quote that may have ended the value
  char quote_ = '"';
  Attribute name_, string_;
  Attribute* open_ = nullptr;  // whose value is being read; null: of one that nobody knows
};

}  // namespace sluice::codec::deepseek_v41
