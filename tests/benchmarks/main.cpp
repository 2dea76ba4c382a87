// spider-bench: times generated kernels beside baselines, in one process, after checking each against double
// precision. README.md in this folder says what is measured and how to read it.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <ctime>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_resources.h"
#include "cudnn_baseline.h"
#include "entries.h"
#include "kernel_library.h"
#include "measure.h"
#include "nvml.h"
#include "options.h"
#include "report.h"
#include "storage.h"

namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

bench::Device describe_device() {
  cudaDeviceProp properties{};
  bench::require(cudaGetDeviceProperties(&properties, 0), "asking for the device");
  return {properties.name, 10 * properties.major + properties.minor, properties.multiProcessorCount,
          properties.l2CacheSize};
}

std::string pci_bus_id() {
  char id[32] = "";
  bench::require(cudaDeviceGetPCIBusId(id, sizeof(id), 0), "asking for the device's address");
  return id;
}

/// The driver's version, or, where it does not tell, the newest CUDA that it knows.
std::string driver_version(const bench::Nvml& nvml) {
  if (const std::string version = nvml.driver_version(); !version.empty()) return version;
  int version = 0;
  bench::require(cudaDriverGetVersion(&version), "asking for the driver");
  return "for CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void list_kernels(const std::vector<std::unique_ptr<bench::KernelLibrary>>& libraries) {
  for (const auto& library : libraries) {
    for (const spider_kernel* kernel : library->kernels()) {
      std::printf("%-9s %-22s %dD %-4s %3d taps %3d products\n", library->label().c_str(), kernel->info.name,
                  kernel->info.dimensions, bench::storage_name(kernel->info.storage).c_str(),
                  kernel->tap_count, kernel->products);
    }
  }
}

int run(const std::vector<std::string>& arguments) {
  const bench::Options options = bench::parse_options(arguments);
  if (options.help) {
    std::cout << bench::usage();
    return 0;
  }
  std::vector<std::unique_ptr<bench::KernelLibrary>> libraries;
  for (const bench::LabelledLibrary& library : options.libraries) {
    libraries.push_back(std::make_unique<bench::KernelLibrary>(library));
  }
  if (options.list) {
    list_kernels(libraries);
    return 0;
  }
  const std::vector<bench::Entry> entries = bench::choose_entries(options, libraries);
  const bench::Device device = describe_device();
  const bench::Nvml nvml(pci_bus_id());
  if (options.cudnn && bench::has_cudnn()) std::cout << "cuDNN " << bench::cudnn_version() << "\n";
  bench::Report report({utc_now(), device.name, driver_version(nvml), options.seed, options.offset},
                       std::cout, options.csv, options.json);
  const bool all_right = bench::measure_all(options, device, nvml, entries, report);
  report.finish();
  return all_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "spider-bench: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spider-bench: %s\n", error.what());
    return 1;
  }
}
