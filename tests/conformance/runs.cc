#include "conformance/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "base/check.h"
#include "model/deepseek_v41/draft.h"

namespace sluice::conformance {
namespace {

namespace v41 = model::deepseek_v41;

int32_t ArgMax(const float* logits, int64_t n) {
  return static_cast<int32_t>(std::max_element(logits, logits + n) - logits);
}

}  // namespace

const std::map<std::string, Tensor>& Runs::All() {
  std::set<std::string> done;
  for (const auto& [name, tensor] : golden_.tensors) {
    const std::string scenario = name.substr(0, name.find('.'));
    int a = 0;
    int b = 0;
    if (std::sscanf(name.c_str(), "replay.hit%d.new%d.", &a, &b) == 2) {
      const std::string prefix = fmt::format("replay.hit{}.new{}", a, b);
      if (done.insert(prefix).second) Replay(a, b, prefix);
    } else if (std::sscanf(name.c_str(), "dspark.p%d.", &a) == 1) {
      if (done.insert(fmt::format("dspark.p{}", a)).second) Draft(a);
    } else if (!done.insert(scenario).second) {
      continue;
    } else if (std::sscanf(scenario.c_str(), "truncated%d_keep%dmore", &a, &b) == 2) {
      Truncated(a, b, scenario);
    } else if (std::sscanf(scenario.c_str(), "truncated%d", &a) == 1) {
      Truncated(a, 0, scenario);
    } else if (std::sscanf(scenario.c_str(), "prefill%d", &a) == 1) {
      Prefill(a);
    } else if (std::sscanf(scenario.c_str(), "greedy%d", &a) == 1) {
      Greedy(a);
    } else if (std::sscanf(scenario.c_str(), "image%d", &a) == 1) {
      Image(a);
    }
  }
  return computed_;
}

model::Sequences Runs::Open(int32_t n_seqs, int32_t n_context) const {
  Result<model::Sequences> sequences = model::Sequences::Open(
      *golden_.model, stream_,
      {.n_seqs = n_seqs, .n_context = n_context, .n_rows = n_context, .n_logits = n_context});
  SLUICE_CHECK(sequences.has_value());
  return std::move(*sequences);
}

std::span<const TokenId> Runs::Prompt(int32_t begin, int32_t end) const {
  SLUICE_CHECK(end <= std::ssize(golden_.prompt));
  return std::span(golden_.prompt)
      .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

Runs::Outputs Runs::Append(model::Sequences& sequences, const Part& part) const {
  Result<Outputs> outputs = sequences.Run({&part, 1});
  SLUICE_CHECK(outputs.has_value());
  return std::move(*outputs);
}

void Runs::Put(const std::string& name, DType dtype, model::Shape shape, const void* data) {
  Tensor tensor{.dtype = dtype, .shape = std::move(shape), .bytes = {}};
  const auto* bytes = static_cast<const uint8_t*>(data);
  tensor.bytes.assign(bytes, bytes + tensor.n_values() * SizeOf(dtype));
  computed_[name] = std::move(tensor);
}

void Runs::PutLogits(const std::string& name, const std::vector<float>& logits) {
  const int64_t n_vocab = golden_.model->info().n_vocab;
  Put(name, DType::kF32, {static_cast<int64_t>(logits.size()) / n_vocab, n_vocab}, logits.data());
}

int32_t Runs::RowsOf(const std::string& name) const {
  const auto at = golden_.tensors.find(name);
  return at == golden_.tensors.end() ? 0 : static_cast<int32_t>(at->second.n_rows());
}

void Runs::Prefill(int32_t n) {
  const std::string prefix = fmt::format("prefill{}", n);
  const bool is_traced = golden_.has(prefix + ".final_hidden");
  const bool is_exact = stream_.arithmetic == Arithmetic::kExact;
  model::Sequences sequences = Open(1, n);
  Sink sink{.runs = this, .prefix = prefix + "."};
  const model::Trace trace{.context = &sink, .note = &NoteInto};
  const Part part{.tokens = Prompt(0, n), .n_logits = n};
  Result<Outputs> outputs = sequences.Run({&part, 1}, {}, is_traced ? &trace : nullptr);
  SLUICE_CHECK(outputs.has_value());
  PutLogits(prefix + ".logits", outputs->logits);
  const int64_t n_last = 4 * int64_t{golden_.model->info().n_vocab};
  if (std::ssize(outputs->logits) >= n_last) {
    PutLogits(prefix + ".logits_last4", {outputs->logits.end() - n_last, outputs->logits.end()});
  }
  if (is_traced && !is_exact) FeedLayers(n);  // in place of the layers of the free run
}

// Float32 follows the golden tokens: a row behind another token has nothing to compare with.
void Runs::Greedy(int32_t n) {
  const std::string prefix = fmt::format("greedy{}", n);
  const int32_t n_tokens = RowsOf(prefix + ".tokens");
  const auto* wanted = golden_.tensors.at(prefix + ".tokens").as<int32_t>();
  const int64_t n_vocab = golden_.model->info().n_vocab;
  model::Sequences sequences = Open(1, n + n_tokens);
  Outputs out = Append(sequences, {.tokens = Prompt(0, n), .n_logits = 1});
  std::vector<int32_t> tokens;
  std::vector<float> logits;
  for (int32_t i = 0; i < n_tokens; ++i) {
    logits.insert(logits.end(), out.logits.begin(), out.logits.end());
    tokens.push_back(ArgMax(out.logits.data(), n_vocab));
    const bool is_exact = stream_.arithmetic == Arithmetic::kExact;
    const TokenId next(is_exact ? tokens.back() : wanted[i]);
    if (i + 1 < n_tokens) out = Append(sequences, {.tokens = {&next, 1}, .n_logits = 1});
  }
  Put(prefix + ".tokens", DType::kI32, {n_tokens}, tokens.data());
  PutLogits(prefix + ".logits", logits);
}

void Runs::Truncated(int32_t n, int32_t n_more, const std::string& prefix) {
  const int32_t n_kept = std::min(n, golden_.model->info().window + n_more);
  model::Sequences sequences = Open(1, n);
  const Outputs out =
      Append(sequences, {.tokens = Prompt(0, n), .decoder_begin = n - n_kept, .n_logits = n_kept});
  std::vector<int32_t> positions;
  for (int32_t pos = n - n_kept; pos < n; ++pos) positions.push_back(pos);
  Put(prefix + ".positions", DType::kI32, {n_kept}, positions.data());
  PutLogits(prefix + ".logits", out.logits);
}

void Runs::Replay(int32_t hit, int32_t n_new, const std::string& prefix) {
  const model::ModelInfo& info = golden_.model->info();
  const int32_t n = hit + n_new;
  const int32_t n_greedy = RowsOf(prefix + ".greedy_tokens");
  const int32_t n_kept = std::min(info.window, n);
  model::Sequences sequences = Open(2, n + n_greedy);
  const Outputs cold = Append(sequences, {.tokens = Prompt(0, n), .n_logits = n_kept});
  PutLogits(prefix + ".exact_logits", cold.logits);

  sequences.ImportPrefix(1, sequences.ExportPrefix(0, hit));
  Outputs out = Append(sequences, {.seq = 1,
                                   .tokens = Prompt(hit, n),
                                   .n_replay = std::min(hit, info.window),
                                   .decoder_begin = n - n_kept,
                                   .n_logits = n_kept});
  std::vector<int32_t> positions;
  for (int32_t pos = n - n_kept; pos < n; ++pos) positions.push_back(pos);
  Put(prefix + ".positions", DType::kI32, {n_kept}, positions.data());
  PutLogits(prefix + ".logits", out.logits);
  const model::deepseek_v41::Config& config = golden_.model->config();
  const auto entries = static_cast<size_t>(
      golden_.model->state().entries[static_cast<size_t>(config.decoder_start())]);
  const model::Sequences::Prefix stored = sequences.ExportPrefix(1, n);
  const int32_t row_bytes = RowBytes(GroupFormat::kFp4Nv, config.head_dim);
  const std::array<int64_t, 2> shape = {n_new, row_bytes};
  PutStored(prefix + ".", {.name = "entry_rows",
                           .dtype = DType::kU8,
                           .shape = shape,
                           .data = stored.rows[entries].data() + int64_t{hit} * row_bytes});

  std::vector<int32_t> tokens;
  std::vector<float> logits;
  for (int32_t i = 0; i < n_greedy; ++i) {
    const float* last = out.logits.data() + (std::ssize(out.logits) - info.n_vocab);
    logits.insert(logits.end(), last, last + info.n_vocab);
    tokens.push_back(ArgMax(last, info.n_vocab));
    const bool is_exact = stream_.arithmetic == Arithmetic::kExact;
    const TokenId next(is_exact ? tokens.back()
                                : golden_.tensors.at(prefix + ".greedy_tokens").as<int32_t>()[i]);
    if (i + 1 < n_greedy) {
      out = Append(sequences, {.seq = 1, .tokens = {&next, 1}, .n_logits = 1});
    }
  }
  Put(prefix + ".greedy_tokens", DType::kI32, {n_greedy}, tokens.data());
  PutLogits(prefix + ".greedy_logits", logits);
}

// The span is where the image token stands.
void Runs::Image(int32_t n) {
  const std::string prefix = fmt::format("image{}", n);
  const model::deepseek_v41::Config& config = golden_.model->config();
  std::vector<uint8_t> is_image;
  std::vector<int32_t> media_rows;
  int32_t n_media = 0;
  for (TokenId token : golden_.image_prompt) {
    const bool belongs = token.value == config.image_token_id;
    is_image.push_back(belongs ? 1 : 0);
    media_rows.push_back(belongs ? n_media++ : -1);
  }
  SLUICE_CHECK(n_media == RowsOf(prefix + ".rows"));
  model::Sequences sequences = Open(1, n);
  const Part part{.tokens = golden_.image_prompt,
                  .is_image = is_image,
                  .media_rows = media_rows,
                  .n_logits = n};
  Result<Outputs> out =
      sequences.Run({&part, 1}, golden_.tensors.at(prefix + ".rows").span<Bf16>());
  SLUICE_CHECK(out.has_value());
  PutLogits(prefix + ".logits", out->logits);
}

// The draft after position p, from taps of the last positions, as many as the golden has. In
// float32 the taps are the golden ones, as with layers, and each row follows the golden token.
void Runs::Draft(int32_t p) {
  const std::string prefix = fmt::format("dspark.p{}.", p);
  const v41::DeepseekV41& model = *golden_.model;
  const v41::Config& c = model.config();
  const int64_t n_block = c.dspark_block_size;
  const int32_t n = p + 1;
  model::Sequences sequences = Open(1, n);
  const Outputs out = Append(sequences, {.tokens = Prompt(0, n), .n_logits = 1});
  const int64_t tap_values = model.info().n_tap_values;
  const int32_t n_taps = RowsOf(prefix + "taps");
  const Bf16* taps = out.taps.data() + (n - n_taps) * tap_values;
  Put(prefix + "taps", DType::kBf16, {n_taps, tap_values}, taps);

  const bool is_exact = stream_.arithmetic == Arithmetic::kExact;
  if (!is_exact) taps = golden_.tensors.at(prefix + "taps").as<Bf16>();
  const int32_t* wanted = golden_.tensors.at(prefix + "tokens").as<int32_t>();
  const int32_t anchor = is_exact ? ArgMax(out.logits.data(), c.vocab_size) : wanted[0];
  Buffer scratch(model.WorkspaceBytes({.n_rows = n, .n_seqs = 1, .n_context = n}));
  const model::Workspace workspace{
      .stream = stream_,
      .memory = sequences.memory(),
      .scratch = {scratch.data(), static_cast<size_t>(scratch.size())}};
  const SlotId slot = sequences.slot(0);
  v41::AbsorbTaps(model, {.slot = slot, .first_pos = n - n_taps, .n_rows = n_taps, .taps = taps},
                  workspace);
  std::vector<uint8_t> rings;
  for (int32_t component : model.state().drafts) {
    const std::span<const uint8_t> ring = sequences.memory().Slot(component, slot);
    rings.insert(rings.end(), ring.begin(), ring.end());
  }
  const std::array<int64_t, 3> shape = {c.num_nextn_predict_layers, c.sliding_window,
                                        RowBytes(GroupFormat::kFp8, c.head_dim)};
  PutStored(prefix + "state_",
            {.name = "window_rows", .dtype = DType::kU8, .shape = shape, .data = rings.data()});
  std::vector<int32_t> tokens(static_cast<size_t>(n_block));
  std::vector<float> base(static_cast<size_t>(n_block * c.vocab_size));
  std::vector<float> logits(base.size());
  std::vector<float> confidence(static_cast<size_t>(n_block));
  std::vector<Bf16> hidden(static_cast<size_t>(n_block * c.hidden_size));
  v41::ProposeDraft(
      model, {.slot = slot, .length = n, .begin = n - n_taps, .anchor = TokenId(anchor)}, workspace,
      {.tokens = tokens,
       .base_logits = base,
       .logits = logits,
       .confidence = confidence,
       .hidden = hidden});
  tokens.insert(tokens.begin(), anchor);
  Put(prefix + "tokens", DType::kI32, {n_block + 1}, tokens.data());
  PutLogits(prefix + "base_logits", base);
  PutLogits(prefix + "logits", logits);
  Put(prefix + "confidence", DType::kF32, {n_block}, confidence.data());
  Put(prefix + "hidden", DType::kBf16, {n_block, c.hidden_size}, hidden.data());
}

void Runs::NoteInto(void* context, const model::TraceTensor& tensor) {
  const auto& sink = *static_cast<const Sink*>(context);
  std::string prefix = sink.prefix;
  if (tensor.layer >= 0) prefix += fmt::format("layer.{}.", tensor.layer);
  if (tensor.name.ends_with("_rows") && tensor.dtype == DType::kU8) {
    sink.runs->PutStored(prefix, tensor);
    return;
  }
  model::Shape shape(tensor.shape.begin(), tensor.shape.end());
  if (tensor.name != "candidate_blocks") {
    sink.runs->Put(prefix + std::string(tensor.name), tensor.dtype, std::move(shape), tensor.data);
    return;
  }
  // Goldens hold the entries inside the blocks, as a mask.
  const model::deepseek_v41::Config& c = sink.runs->golden_.model->config();
  const int64_t n = shape[0];
  std::vector<uint8_t> mask(static_cast<size_t>(n * n));
  const auto* blocks = static_cast<const int32_t*>(tensor.data);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < shape[1] && blocks[row * shape[1] + i] >= 0; ++i) {
      const int64_t begin = int64_t{blocks[row * shape[1] + i]} * c.candidate_block_size;
      const int64_t end = std::min(begin + c.candidate_block_size, row + 1);
      std::fill(mask.begin() + row * n + begin, mask.begin() + row * n + end, uint8_t{1});
    }
  }
  sink.runs->Put(prefix + "candidates", DType::kU8, {n, n}, mask.data());
}

// name_rows [.., codes and scales] -> name_codes, name_scales.
void Runs::PutStored(const std::string& prefix, const model::TraceTensor& tensor) {
  const model::deepseek_v41::Config& c = golden_.model->config();
  const bool is_window = tensor.name == "window_rows";
  const bool is_entry = tensor.name == "entry_rows";
  const int32_t width = is_window || is_entry ? c.head_dim : c.index_head_dim;
  const GroupFormat format = is_window  ? GroupFormat::kFp8
                             : is_entry ? GroupFormat::kFp4Nv
                                        : GroupFormat::kFp4Mx;
  const int64_t code_bytes = CodeBytes(format, width);
  const int64_t scale_bytes = ScaleBytes(format, width);
  int64_t n = 1;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) n *= tensor.shape[i];
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
  const auto* row = static_cast<const uint8_t*>(tensor.data);
  for (int64_t i = 0; i < n; ++i, row += code_bytes + scale_bytes) {
    codes.insert(codes.end(), row, row + code_bytes);
    scales.insert(scales.end(), row + code_bytes, row + code_bytes + scale_bytes);
  }
  model::Shape shape(tensor.shape.begin(), tensor.shape.end());
  const std::string name =
      prefix.ends_with("state_")
          ? prefix
          : prefix + std::string(tensor.name.substr(0, tensor.name.size() - std::strlen("rows")));
  shape.back() = code_bytes;
  Put(name + "codes", DType::kU8, shape, codes.data());
  shape.back() = scale_bytes;
  Put(name + "scales", DType::kU8, shape, scales.data());
}

}  // namespace sluice::conformance
