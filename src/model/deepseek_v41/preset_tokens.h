// The files of a preset that say what its tokens are (spec model.md §6.6). Pure functions.
//
// The released tokenizer.json is not ours to ship: whoever makes a preset with a tokenizer gives
// it, and it is known by its SHA-256.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/deepseek_v41/presets.h"
#include "model/deepseek_v41/random_checkpoint.h"

namespace sluice::model::deepseek_v41 {

// kInvalidArgument for anything but tokenizer.json of DeepSeek-V4.1-Flash, byte by byte.
Status CheckReleasedTokenizer(std::string_view text);

// tokenizer.json with the first merges of the released one and its named control tokens at the end:
// vocab_size tokens, at least 278. Ids below vocab_size - 19 are those of the release.
Result<std::string> CutTokenizer(std::string_view released, int32_t vocab_size);

// tokenizer.json and engram_token_map.json, as the preset has them. released: the text of the
// released tokenizer.json; not looked at by a preset without a tokenizer. Errors as above, and when
// the classes of the tokens are not as many as the config says.
Result<std::vector<SideFile>> TokenFiles(const Preset& preset, std::string_view released);

}  // namespace sluice::model::deepseek_v41
