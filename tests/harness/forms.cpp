// For tests of each of a kernel's forms on fields of any size: the runtime would choose by size.
#include <spider/kernel.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

/// The kernel with one form only, and that for any rows where the form needs aligned ones; NULL where it has
/// no such form, counted from 0, for sweeps of its time steps, and where one form leaves rims to another. It
/// lives for ever, since the runtime knows kernels by their addresses.
extern "C" SPIDER_PUBLIC const spider_kernel* spider_test_form(const spider_kernel* kernel, int form) {
  static std::mutex mutex;
  static std::map<std::pair<const spider_kernel*, int>, std::unique_ptr<const spider_kernel>> made;
  if (form < 0 || form >= kernel->form_count || kernel->forms[form].steps != kernel->info.steps)
    return nullptr;
  if (kernel->forms[1].sweep.boxes != nullptr) return nullptr;  // two that share a sweep, not two ways
  const std::lock_guard lock(mutex);
  std::unique_ptr<const spider_kernel>& single = made[{kernel, form}];
  if (single == nullptr) {
    spider_kernel copy = *kernel;
    copy.forms[0] = kernel->forms[form];
    copy.forms[0].min_blocks_per_sm = 0;
    for (int i = 0; i < kernel->form_count; ++i) {
      if (kernel->forms[i].steps == kernel->info.steps) copy.forms[1] = kernel->forms[i];
    }
    copy.form_count = copy.forms[0].needs_aligned_rows ? 2 : 1;
    single = std::make_unique<const spider_kernel>(copy);
  }
  return single.get();
}
