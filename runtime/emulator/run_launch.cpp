#include "run_launch.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "block.h"
#include "src/fields.h"
#include "src/float_mode.h"

namespace spider::emulator {

namespace {

template <class Number>
Number read_number(const char* variable, Number lowest, Number highest, Number otherwise) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  Number value{};
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc{} && stop == end && value >= lowest && value <= highest ? value : otherwise;
}

/// Hands out a launch's blocks in ascending order and stores the message of the lowest faulty one.
class Progress {
 public:
  explicit Progress(std::int64_t blocks) : blocks_(blocks), lowest_faulty_(blocks) {}

  std::optional<std::int64_t> next() {
    const std::int64_t block = next_++;
    if (block >= blocks_ || block > lowest_faulty_) return std::nullopt;
    return block;
  }

  void fail(std::int64_t block, std::string reason) {
    const std::lock_guard lock(mutex_);
    if (block >= lowest_faulty_) return;
    lowest_faulty_ = block;
    reason_ = std::move(reason);
  }

  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    lowest_faulty_ = -1;
    error_ = std::move(error);
  }

  /// After all threads are done.
  [[nodiscard]] const std::optional<std::string>& reason() const {
    if (error_) std::rethrow_exception(error_);
    return reason_;
  }

 private:
  std::int64_t blocks_;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<std::int64_t> lowest_faulty_;
  std::mutex mutex_;
  std::optional<std::string> reason_;
  std::exception_ptr error_;
};

void run_blocks(const Launch& launch, Progress& progress) {
  const WithSubnormals mode;  // inherited by fibers
  try {
    Block block(launch);
    while (const auto number = progress.next()) {
      if (auto violation = block.run(*number)) progress.fail(*number, std::move(*violation));
    }
  } catch (...) {
    progress.fail(std::current_exception());
  }
}

}  // namespace

Settings read_settings() {
  Settings settings;
  settings.seed =
      read_number<std::uint64_t>("SPIDER_EMULATOR_SEED", 0, std::numeric_limits<std::uint64_t>::max(), 1);
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  settings.threads = read_number<int>("SPIDER_EMULATOR_THREADS", 1, 1024, processors);
  settings.multiprocessors =
      read_number<int>("SPIDER_EMULATOR_MULTIPROCESSORS", 1, 65536, settings.multiprocessors);
  const int products = read_number<int>("SPIDER_EMULATOR_PRODUCTS_AT_ONCE", 1, 16, settings.products_at_once);
  if (16 % products == 0) settings.products_at_once = products;
  return settings;
}

namespace {

/// Runs all blocks. Returns the message of the lowest faulty one.
std::optional<std::string> run_all(const Launch& launch, std::int64_t blocks, int threads) {
  Progress progress(blocks);
  {
    std::vector<std::jthread> helpers;
    for (std::int64_t i = 1; i < std::min<std::int64_t>(threads, blocks); ++i)
      helpers.emplace_back([&] { run_blocks(launch, progress); });
    run_blocks(launch, progress);
  }
  return progress.reason();
}

std::optional<std::string> run_system(const spider_kernel& kernel, const SweepForm& form,
                                      const SystemArguments& arguments, std::int64_t blocks,
                                      const Settings& settings) {
  SystemAccess access(kernel, kernel.system->sweeps[&form - kernel.forms], arguments);
  const Launch launch{form, arguments, nullptr, &access, settings.seed, settings.products_at_once};
  auto reason = run_all(launch, blocks, settings.threads);
  return reason ? reason : access.missing();
}

std::optional<std::string> run_sweep(const spider_kernel& kernel, const SweepForm& form,
                                     const SweepArguments& arguments, std::int64_t blocks,
                                     const Settings& settings) {
  FieldAccess fields = form.sweep.boxes == nullptr
                           ? FieldAccess(kernel, arguments)
                           : FieldAccess(kernel, static_cast<const BoxesArguments&>(arguments));
  const Launch launch{form, arguments, &fields, nullptr, settings.seed, settings.products_at_once};
  auto reason = run_all(launch, blocks, settings.threads);
  return reason ? reason : fields.missing_output();
}

/// The same for one image of several, of a kernel that finds its image itself. Each image has its own cells.
std::optional<std::string> run_image(const spider_kernel& kernel, const SweepForm& form,
                                     const SweepArguments& arguments, std::int64_t blocks,
                                     const Settings& settings, std::int32_t image) {
  SweepArguments own = arguments;
  const std::int64_t bytes = bytes_of(kernel.info.storage);
  own.input = static_cast<const std::byte*>(own.input) + image * own.input_stride[0] * bytes;
  own.output =
      static_cast<std::byte*>(own.output) + image * own.output_stride[0] * bytes_of(kernel.info.output);
  FieldAccess fields(kernel, own);
  const Launch launch{form, arguments, &fields, nullptr, settings.seed, settings.products_at_once, image};
  auto reason = run_all(launch, blocks, settings.threads);
  if (!reason) reason = fields.missing_output();
  if (reason) *reason = "image " + std::to_string(image) + ", " + *reason;
  return reason;
}

std::optional<std::string> run_images(const spider_kernel& kernel, const SweepForm& form,
                                      const SweepArguments& arguments, std::int64_t blocks,
                                      const Settings& settings, std::int32_t images) {
  for (std::int32_t image = 0; image < images; ++image) {
    if (auto reason = run_image(kernel, form, arguments, blocks, settings, image)) return reason;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> run_launch(const spider_kernel& kernel, const SweepForm& form,
                                      const SweepArguments& arguments, std::int64_t blocks,
                                      const Settings& settings, std::int32_t images) {
  const auto reason =
      images > 1 ? run_images(kernel, form, arguments, blocks, settings, images)
      : form.sweep.system == nullptr
          ? run_sweep(kernel, form, arguments, blocks, settings)
          : run_system(kernel, form, static_cast<const SystemArguments&>(arguments), blocks, settings);
  if (!reason) return std::nullopt;
  return "kernel " + std::string(kernel.info.name) + ", " + *reason +
         " [SPIDER_EMULATOR_SEED=" + std::to_string(settings.seed) + "]";
}

}  // namespace spider::emulator
