// Reads fields of config.json by either spelling. A field may stand in
// text_config or at the top, under its name or its alias; wherever it stands it must say the same.
// Thread-compatible.
//
// A name with a dot ("rope_scaling.factor") is a member of an object. Errors name the field, its
// value and what is allowed.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace sluice::model {

struct FieldName {
  const char* name;
  const char* alias;  // or null
};

class ConfigReader {
 public:
  // An object, which outlives this.
  explicit ConfigReader(JsonValue root) : root_(root), text_(root.Find("text_config")) {}

  // Written as Hugging Face does, with text_config.
  bool is_nested() const { return text_.is_object(); }
  bool Has(FieldName field) const;
  bool IsNull(FieldName field) const;  // it stands somewhere, as null
  bool HasObject(std::string_view name) const { return root_.Find(name).is_object(); }

  struct Range {
    int64_t min, max;  // both allowed
  };
  Result<int64_t> Int(FieldName field, Range range) const;
  Result<double> Double(FieldName field, double min, double max) const;
  Result<bool> Bool(FieldName field) const;
  // At most kMaxList numbers of the range.
  Result<std::vector<int64_t>> List(FieldName field, Range range) const;
  static constexpr int32_t kMaxList = 1100;

  // The field, if there is one or there must be one, has one of the values `allowed`: compact JSON
  // texts with " or " between them.
  Status Expect(FieldName field, std::string_view allowed, bool is_required) const;

 private:
  struct Found {
    std::string name;  // as it stands in the file
    JsonValue value;
  };
  // All places where the field stands.
  std::vector<Found> FindAll(FieldName field) const;
  // The one value; kInvalidArgument when there is none or two that differ.
  Result<Found> Find(FieldName field) const;

  JsonValue root_;
  JsonValue text_;
};

}  // namespace sluice::model
