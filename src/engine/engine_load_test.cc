// The engine while its model is loaded, with the tiny golden one.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "engine/engine.h"
#include "engine/engine_test_impl.h"
#include "env/posix/posix_env.h"
#include "model/checkpoint/model_folder_test_impl.h"
#include "model/deepseek_v41/tiny_test_impl.h"

namespace sluice::engine {
namespace {

constexpr const char* kFiles[] = {"config.json", "model.safetensors", "engram_token_map.json"};

Engine::Params TinyParams() {
  return {.max_running = 2, .max_waiting = 2, .n_context = 128, .n_prompt_rows = 64};
}

class EngineLoadTest : public testing::Test {
 protected:
  void Open(const std::string& folder) {
    Result<model::Loader> loader = model::Loader::Open(posix.env().fs, folder);
    ASSERT_TRUE(loader.has_value()) << loader.error().message();
    engine = std::make_unique<Engine>(TinyParams(), std::move(*loader));
  }
  Status Submit() { return engine->Submit(Ask(1, TokenId(10), 3), client.queue); }

  PosixEnv posix;
  ReadyList ready{Bell{}};
  Listener client{ready};
  std::unique_ptr<Engine> engine;
};

TEST_F(EngineLoadTest, SaysHowFarItIsAndRefusesUntilItIsDone) {
  Open(model::deepseek_v41::TinyFolder());
  wire::LoadReport load = engine->Load();
  ASSERT_TRUE(load.loading.has_value());
  EXPECT_EQ(load.loading->percent(), 0);
  EXPECT_FALSE(load.loading->left().has_value());
  EXPECT_EQ(load.n_running_max, 2);
  const int64_t total_bytes = load.loading->total_bytes;
  EXPECT_GT(total_bytes, 5'000'000);

  Status refused = Submit();
  EXPECT_EQ(refused.code(), ErrorCode::kOverloaded);
  EXPECT_EQ(refused.message(), "the model is being loaded: 0 % are done");
  EXPECT_EQ(refused.retry_after(), Duration::Seconds(60)) << "nobody knows yet how long it takes";

  // Smaller than one piece: everything is read in the first step, packed in the second, and opened
  // some steps later.
  EXPECT_EQ(engine->Step(At(1'000)), At(1'000)) << "there is more to do";
  load = engine->Load();
  ASSERT_TRUE(load.loading.has_value());
  EXPECT_GT(load.loading->done_bytes, total_bytes / 3);
  EXPECT_LT(load.loading->done_bytes, total_bytes);
  engine->Step(At(1'000));
  load = engine->Load();
  ASSERT_TRUE(load.loading.has_value());
  EXPECT_EQ(load.loading->done_bytes, total_bytes);
  EXPECT_EQ(load.loading->file, "model.safetensors");
  EXPECT_EQ(Submit().message(), "the model is being loaded: 100 % are done");

  for (int i = 0; engine->Load().loading; ++i) {
    ASSERT_LT(i, 3);
    engine->Step(At(3'000));
  }
  EXPECT_TRUE(engine->failure().ok());
  ASSERT_TRUE(Submit().ok());
  while (!engine->idle()) engine->Step(At(3'000));
  client.Drain();
  EXPECT_EQ(TokensOf(client).size(), 3u);
}

TEST_F(EngineLoadTest, TheTimeToComeBackFollowsFromTheRateWithinBounds) {
  wire::LoadProgress loading{.done_bytes = 10, .total_bytes = 100, .elapsed = Duration::Seconds(1)};
  EXPECT_EQ(loading.percent(), 10);
  EXPECT_EQ(loading.bytes_per_s(), 10);
  EXPECT_EQ(loading.left(), Duration::Seconds(9));
  loading.done_bytes = 0;
  EXPECT_FALSE(loading.left().has_value());
  EXPECT_EQ(wire::LoadProgress().percent(), 100) << "nothing to read is all of it";

  Open(model::deepseek_v41::TinyFolder());
  engine->Step(At(0));
  engine->Load();
  EXPECT_EQ(Submit().retry_after(), Duration::Seconds(60)) << "no time has passed: no rate";
}

TEST_F(EngineLoadTest, AValueThatIsRefusedEndsLoadingWithItsPlace) {
  const model::ModelFolder folder;
  for (const char* name : kFiles) {
    std::ifstream file(model::deepseek_v41::TinyFolder() + "/" + name, std::ios::binary);
    folder.Write(name, std::string(std::istreambuf_iterator<char>(file), {}));
  }
  {
    Result<model::Checkpoint> checkpoint = model::Checkpoint::Open(posix.env().fs, folder.path());
    ASSERT_TRUE(checkpoint.has_value());
    const model::Checkpoint::Tensor* norm = checkpoint->Find("norm.weight");
    ASSERT_NE(norm, nullptr);
    const auto offset = norm->entry.begin;
    folder.Patch("model.safetensors", offset + 2, "\x80\x7F");  // an infinity
  }
  Open(folder.path());
  for (int i = 0; engine->failure().ok(); ++i) {
    ASSERT_LT(i, 3);
    engine->Step(At(i));
  }
  EXPECT_EQ(engine->failure().code(), ErrorCode::kCorrupt);
  EXPECT_NE(engine->failure().message().find("norm.weight"), std::string_view::npos)
      << engine->failure().message();
  EXPECT_EQ(Submit().code(), ErrorCode::kOverloaded);
  EXPECT_TRUE(engine->Load().loading.has_value()) << "it is not ready";
  EXPECT_EQ(engine->Step(At(10)), At(10) + wire::RequestDesk::kHeartbeat) << "it must not spin";
}

TEST_F(EngineLoadTest, MoreContextThanTheModelHasIsAFailure) {
  Result<model::Loader> loader =
      model::Loader::Open(posix.env().fs, model::deepseek_v41::TinyFolder());
  ASSERT_TRUE(loader.has_value());
  Engine::Params params = TinyParams();
  params.n_context = 1'000'000;
  Engine too_long(params, std::move(*loader));
  for (int i = 0; too_long.failure().ok(); ++i) {
    ASSERT_LT(i, 3);
    too_long.Step(At(i));
  }
  EXPECT_EQ(too_long.failure().code(), ErrorCode::kInvalidArgument);
}

TEST_F(EngineLoadTest, ShutdownWhileLoadingIsIdleAtOnce) {
  Open(model::deepseek_v41::TinyFolder());
  engine->Step(At(0));
  engine->CancelAll();
  EXPECT_TRUE(engine->idle());
}

}  // namespace
}  // namespace sluice::engine
