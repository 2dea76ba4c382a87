#include "kernel_library.h"

#include <dlfcn.h>

#include <stdexcept>

namespace bench {

void KernelLibrary::Close::operator()(void* library) const {
  dlclose(library);
}

KernelLibrary::KernelLibrary(const LabelledLibrary& library) : label_(library.label) {
  library_.reset(dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library_ == nullptr) throw std::runtime_error(dlerror());
  const auto find = [&](const char* name) {
    void* function = dlsym(library_.get(), name);
    if (function == nullptr) {
      throw std::runtime_error(library.path + " has no " + name + ": it is not a library of run.sh");
    }
    return function;
  };
  apply_ = reinterpret_cast<decltype(apply_)>(find("spider_apply"));
  last_error_ = reinterpret_cast<decltype(last_error_)>(find("spider_last_error"));
  const auto information = reinterpret_cast<decltype(&spider_info)>(find("spider_info"));
  const auto listed = reinterpret_cast<const spider_kernel* (*)(int)>(find("spider_bench_kernel"));
  for (int i = 0; const spider_kernel* kernel = listed(i); ++i) {
    if (information(kernel) == nullptr) throw std::runtime_error(library.path + ": " + last_error_());
    kernels_.push_back(kernel);
  }
}

void KernelLibrary::apply(const spider_kernel& kernel, const spider_field& in, const spider_field& out,
                          void* stream) const {
  if (apply_(&kernel, &in, &out, stream) != SPIDER_OK) throw std::runtime_error(last_error_());
}

}  // namespace bench
