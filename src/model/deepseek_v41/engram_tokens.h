// The token map of Engram: token id -> class (spec model.md §3.6). Tokens whose texts differ only
// in case, accents, form or space around them share a class.
//
// Every multiplier of the hash derives from the number of classes, so a wrong map silently rehashes
// the whole table: the count is checked against the config, wherever the map comes from.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "env/file_system.h"
#include "model/deepseek_v41/config.h"

namespace sluice::model::deepseek_v41 {

// The map of a model folder, [vocab_size]: engram_token_map.json if it is there, else built from
// tokenizer.json. Nothing is read, and the map is empty, when the config has no Engram layer.
Result<std::vector<int32_t>> LoadTokenClasses(FileSystem& fs,
                                              std::string_view folder,
                                              const Config& config);

// The side file: a JSON list of classes.
Result<std::vector<int32_t>> ParseTokenClasses(std::string_view json, const Config& config);

// From tokenizer.json: a byte-level vocabulary and its added tokens.
Result<std::vector<int32_t>> BuildTokenClasses(std::string_view tokenizer_json,
                                               const Config& config);

// The class's text, from the text of a token (UTF-8): NFKC, NFD, without marks, in lower case, runs
// of space as one, none at the ends unless there is nothing else. May be empty.
std::string NormalizeTokenText(std::string_view text);

}  // namespace sluice::model::deepseek_v41
