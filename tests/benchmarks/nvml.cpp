#include "nvml.h"

#include <dlfcn.h>

#include <chrono>
#include <numeric>

namespace bench {
namespace {

// The few declarations of nvml.h that are used: the toolkit does not always carry it.
using NvmlDevice = struct nvmlDevice_st*;
constexpr int nvml_success = 0;
constexpr int nvml_clock_sm = 1;

constexpr auto sampling_interval = std::chrono::milliseconds(10);

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

struct Nvml::Functions {
  std::unique_ptr<void, int (*)(void*)> library{nullptr, dlclose};
  int (*initialise)() = nullptr;
  int (*shut_down)() = nullptr;
  int (*device_by_pci)(const char*, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;
  int (*energy)(NvmlDevice, unsigned long long*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  NvmlDevice device = nullptr;

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library.get(), name));
  }
};

Nvml::Nvml(const std::string& pci_bus_id) {
  auto found = std::make_unique<Functions>();
  found->library.reset(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  if (found->library == nullptr) return;
  found->find(found->initialise, "nvmlInit_v2");
  found->find(found->shut_down, "nvmlShutdown");
  found->find(found->device_by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
  found->find(found->clock, "nvmlDeviceGetClockInfo");
  found->find(found->power, "nvmlDeviceGetPowerUsage");
  found->find(found->energy, "nvmlDeviceGetTotalEnergyConsumption");
  found->find(found->driver, "nvmlSystemGetDriverVersion");
  if (found->initialise == nullptr || found->shut_down == nullptr || found->device_by_pci == nullptr) return;
  if (found->initialise() != nvml_success) return;
  if (found->device_by_pci(pci_bus_id.c_str(), &found->device) != nvml_success) {
    found->shut_down();
    return;
  }
  functions_ = std::move(found);
}

Nvml::~Nvml() {
  if (functions_ != nullptr) functions_->shut_down();
}

std::string Nvml::driver_version() const {
  char version[96] = "";
  if (functions_ == nullptr || functions_->driver == nullptr) return "";
  return functions_->driver(version, sizeof(version)) == nvml_success ? version : "";
}

std::optional<double> Nvml::sm_clock() const {
  unsigned megahertz = 0;
  if (functions_ == nullptr || functions_->clock == nullptr) return std::nullopt;
  if (functions_->clock(functions_->device, nvml_clock_sm, &megahertz) != nvml_success) return std::nullopt;
  return megahertz;
}

std::optional<double> Nvml::power() const {
  unsigned milliwatts = 0;
  if (functions_ == nullptr || functions_->power == nullptr) return std::nullopt;
  if (functions_->power(functions_->device, &milliwatts) != nvml_success) return std::nullopt;
  return milliwatts * 1e-3;
}

std::optional<double> Nvml::energy() const {
  unsigned long long millijoules = 0;
  if (functions_ == nullptr || functions_->energy == nullptr) return std::nullopt;
  if (functions_->energy(functions_->device, &millijoules) != nvml_success) return std::nullopt;
  return static_cast<double>(millijoules) * 1e-3;
}

LoadSampler::LoadSampler(const Nvml& nvml)
    : nvml_(nvml), energy_before_(nvml.energy()), started_(seconds_now()), thread_([this] { sample(); }) {}

LoadSampler::~LoadSampler() {
  done_ = true;
  if (thread_.joinable()) thread_.join();
}

void LoadSampler::sample() {
  while (!done_) {
    std::this_thread::sleep_for(sampling_interval);
    if (const auto clock = nvml_.sm_clock()) clocks_.push_back(*clock);
    if (const auto power = nvml_.power()) powers_.push_back(*power);
  }
}

Load LoadSampler::finish() {
  const double seconds = seconds_now() - started_;
  const std::optional<double> energy = nvml_.energy();
  done_ = true;
  thread_.join();
  Load load{mean(clocks_), mean(powers_)};
  if (energy && energy_before_ && *energy > *energy_before_)
    load.power_w = (*energy - *energy_before_) / seconds;
  return load;
}

}  // namespace bench
