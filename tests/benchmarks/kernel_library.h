/// Generated kernels in shared libraries, each with a runtime of its own, so that the same stencil of several
/// engines can be timed in one process.
#pragma once

#include <spider/kernel.h>
#include <spider/spider.h>

#include <memory>
#include <string>
#include <vector>

#include "options.h"

namespace bench {

/// A library that run.sh made: kernels, the runtime, and `spider_bench_kernel`, which lists them.
class KernelLibrary {
 public:
  /// Throws std::runtime_error where it cannot be opened or lacks a function.
  explicit KernelLibrary(const LabelledLibrary& library);

  [[nodiscard]] const std::string& label() const { return label_; }
  [[nodiscard]] const std::vector<const spider_kernel*>& kernels() const { return kernels_; }

  /// Throws std::runtime_error with the runtime's words.
  void apply(const spider_kernel& kernel, const spider_field& in, const spider_field& out,
             void* stream) const;

 private:
  struct Close {
    void operator()(void* library) const;
  };

  std::string label_;
  std::unique_ptr<void, Close> library_;
  std::vector<const spider_kernel*> kernels_;
  decltype(&spider_apply) apply_ = nullptr;
  decltype(&spider_last_error) last_error_ = nullptr;
};

}  // namespace bench
