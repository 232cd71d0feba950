#include "codec/dialect/openai_usage.h"

#include <algorithm>

#include "base/json_writer.h"

namespace sluice::codec {

void AppendOpenAiUsage(const wire::Usage& usage, const UsageParams& params, std::string& out) {
  JsonWriter w(out);
  w.Object();
  w.Key("prompt_tokens").Int(usage.n_prompt);
  w.Key("completion_tokens").Int(usage.n_completion);
  w.Key("total_tokens").Int(int64_t{usage.n_prompt} + usage.n_completion);
  w.Key("prompt_tokens_details").Object().Key("cached_tokens").Int(usage.n_cached).EndObject();
  if (params.with_reasoning) {
    w.Key("completion_tokens_details")
        .Object()
        .Key("reasoning_tokens")
        .Int(usage.n_reasoning)
        .EndObject();
  }
  w.Key("prompt_cache_hit_tokens").Int(usage.n_cached);
  w.Key("prompt_cache_miss_tokens").Int(std::max(0, usage.n_prompt - usage.n_cached));
  w.EndObject();
}

}  // namespace sluice::codec
