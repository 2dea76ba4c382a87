// For tests of each of a kernel's forms on fields of any size: the runtime would choose by size.
#include <spider/kernel.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

/// The kernel with one form only, that for any fields where the form needs aligned rows or large ones, and
/// those of rims where it leaves some; NULL where it has no such form, counted from 0, for sweeps of its time
/// steps. It lives for ever, since the runtime knows kernels by their addresses.
extern "C" SPIDER_PUBLIC const spider_kernel* spider_test_form(const spider_kernel* kernel, int form) {
  static std::mutex mutex;
  static std::map<std::pair<const spider_kernel*, int>, std::unique_ptr<const spider_kernel>> made;
  if (form < 0 || form >= kernel->form_count || kernel->forms[form].steps != kernel->info.steps)
    return nullptr;
  if (kernel->forms[form].sweep.boxes != nullptr) return nullptr;          // of rims, no way of its own
  if (form > 0 && kernel->forms[form - 1].min_extent > 0) return nullptr;  // of small fields, with other bits
  const std::lock_guard lock(mutex);
  std::unique_ptr<const spider_kernel>& single = made[{kernel, form}];
  if (single == nullptr) {
    spider_kernel copy = *kernel;
    copy.forms[0] = kernel->forms[form];
    copy.forms[0].min_blocks_per_sm = 0;
    const spider::SweepForm* for_any_fields = nullptr;
    for (int i = 0; i < kernel->form_count; ++i) {
      const spider::SweepForm& other = kernel->forms[i];
      if (other.steps == kernel->info.steps && other.sweep.boxes == nullptr) for_any_fields = &other;
    }
    copy.form_count = 1;
    const bool is_for_some = copy.forms[0].needs_aligned_rows || copy.forms[0].min_extent > 0;
    if (is_for_some) copy.forms[copy.form_count++] = *for_any_fields;
    for (int i = 0; i < kernel->form_count; ++i) {
      const spider::SweepForm& other = kernel->forms[i];
      if (other.steps == kernel->info.steps && other.sweep.boxes != nullptr)
        copy.forms[copy.form_count++] = other;
    }
    single = std::make_unique<const spider_kernel>(copy);
  }
  return single.get();
}
