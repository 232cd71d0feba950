#include "app/codec_options.h"

namespace sluice::app {
namespace {

using codec::Profile;
using codec::ProfileSwitch;

constexpr std::string_view kProfiles[] = {"default", "reference"};

Profile BaseOf(CodecOptions::Base base) {
  return base == CodecOptions::Base::kReference ? Profile::Reference() : Profile{};
}

// Which of its two values a switch has in `profile`.
size_t IndexIn(const Profile& profile, const ProfileSwitch& one) {
  return profile.*one.field == Profile{}.*one.field ? 0 : 1;
}

}  // namespace

void CodecOptions::Declare(OptionSet& set) {
  set.Group("Codec");
  set.AddChoice("chat-format", &chat_format, codec::kFormatNames,
                {.help = "How conversations are written for the model; auto: as its architecture, "
                         "the rules of its tokenizer and its control tokens tell."});
  set.AddChoice("profile", &profile, kProfiles,
                {.help = "Every switch below that is not set: default, which suits clients best, "
                         "or reference, which does as the published codec package and has none of "
                         "the fields beyond it."});
  for (size_t i = 0; i < sides.size(); ++i) {
    const ProfileSwitch& one = codec::ProfileSwitches()[i];
    set.AddChoice(one.name, &sides[i], one.values, {.help = one.help});
  }
}

void CodecOptions::FillIn(OptionSet& set) const {
  if (profile == Base::kDefault) return;
  for (const ProfileSwitch& one : codec::ProfileSwitches()) {
    set.SetDefault(one.name, one.values[IndexIn(BaseOf(profile), one)], "profile reference");
  }
}

Profile CodecOptions::ToProfile() const {
  Profile result = BaseOf(profile);
  for (size_t i = 0; i < sides.size(); ++i) {
    const ProfileSwitch& one = codec::ProfileSwitches()[i];
    const bool is_first = sides[i] == Side::kFirst;
    result.*one.field = is_first == Profile{}.*one.field;
  }
  return result;
}

}  // namespace sluice::app
