// CodecOptions: which chat format the codec has, and where it follows the reference codec and where
// ours, as an operator says it (spec recipe.md §11): a profile, and each switch of it by itself.
//
// Thread-compatible; immutable after start.

#pragma once

#include <cstdint>
#include <vector>

#include "base/options.h"
#include "codec/format.h"
#include "codec/profile.h"

namespace sluice::app {

struct CodecOptions {
  enum class Base : uint8_t { kDefault, kReference };
  enum class Side : uint8_t { kFirst, kSecond };  // of ProfileSwitch::values

  Base profile = Base::kDefault;
  codec::FormatName chat_format = codec::FormatName::kAuto;
  std::vector<Side> sides =
      std::vector<Side>(codec::ProfileSwitches().size());  // by ProfileSwitches()

  void Declare(OptionSet& set);
  // Once all sources were read: switches that none of them has set get the profile's value.
  void FillIn(OptionSet& set) const;
  codec::Profile ToProfile() const;
};

}  // namespace sluice::app
