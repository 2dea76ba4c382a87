#include "entries.h"

#include <cstdio>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace bench {
namespace {

/// The kernel with another preferred_steps.
Entry with_walks(const KernelLibrary& library, const spider_kernel& kernel, std::int32_t steps) {
  auto copy = std::make_shared<spider_kernel>(kernel);
  for (spider::SweepForm& form : copy->forms) form.tiling.preferred_steps = steps;
  return {library.label(), "walks of " + std::to_string(steps), &library, copy};
}

/// Why a kernel's results cannot be checked here, or a null pointer.
const char* left_out(const spider_kernel& kernel) {
  if (kernel.info.launch_count > 0) return "is a system of equations";
  if (kernel.forms[0].sweep.update != nullptr) return "has an update";
  return nullptr;
}

}  // namespace

std::vector<Entry> choose_entries(const Options& options,
                                  const std::vector<std::unique_ptr<KernelLibrary>>& libraries) {
  std::vector<Entry> entries;
  std::set<std::string> matched;
  for (const auto& library : libraries) {
    for (const spider_kernel* kernel : library->kernels()) {
      if (!matches_any(options.kernels, kernel->info.name)) continue;
      for (const std::string& pattern : options.kernels) {
        if (matches_any({pattern}, kernel->info.name)) matched.insert(pattern);
      }
      if (const char* reason = left_out(*kernel)) {
        std::fprintf(stderr, "spider-bench: %s %s: left out\n", kernel->info.name, reason);
        continue;
      }
      if (options.walks.empty()) {
        // Static storage of the library: nothing to own.
        entries.push_back({library->label(), "", library.get(), {kernel, [](const spider_kernel*) {}}});
      }
      for (const std::int32_t steps : options.walks) entries.push_back(with_walks(*library, *kernel, steps));
    }
  }
  for (const std::string& pattern : options.kernels) {
    if (!matched.contains(pattern)) {
      throw std::invalid_argument("no kernel matches '" + pattern + "'; --list names what there is");
    }
  }
  return entries;
}

std::vector<Group> make_groups(const Options& options, const std::vector<Entry>& entries) {
  std::vector<Group> groups;
  for (const Size& size : options.sizes) {
    std::map<std::pair<int, int>, std::vector<const Entry*>> kinds;
    for (const Entry& entry : entries) {
      const spider_kernel_info& info = entry.kernel->info;
      kinds[{info.dimensions, info.storage}].push_back(&entry);
    }
    for (auto& [kind, members] : kinds) {
      if (const auto extents = extents_for(size, kind.first)) {
        groups.push_back({kind.first, kind.second, *extents, std::move(members)});
      }
    }
  }
  if (groups.empty()) throw std::invalid_argument("no kernel has the dimensions of any of the sizes");
  return groups;
}

}  // namespace bench
