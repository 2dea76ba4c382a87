// Heat, a wave and sound on the ranks of MPI_COMM_WORLD.
//
//     mpiexec -n 4 consumer                                        checks small fields against one rank
//     mpiexec -n 4 consumer heat_plate --in a.npy --steps 100 --out b.npy
//     mpiexec -n 2 consumer heat_block --measure 768 768 768       extents of a rank; times, and a model for
//     more ranks
//     mpiexec -n 2 consumer sound_block --measure 512 512 512      the same of a system of equations
#include <mpi.h>

#include <spider/distributed.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "heat_block.h"
#include "heat_f16_block.h"
#include "heat_plate.h"
#include "model.h"
#include "sound_block.h"
#include "wave_block.h"

namespace {

int this_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int all_ranks() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

struct Request {
  std::string kernel = "heat_plate";
  std::string in;
  std::string out;
  std::int64_t steps = 100;
  spider::Extents measure{};  ///< extents of a rank; zeros: none
  double network = 50e9;      ///< bytes a second between hosts for each rank: 400 Gbit/s
};

/// The ranks of MPI_COMM_WORLD, so many along z, y, x, as a communicator that grids take as it is.
class Cartesian {
 public:
  Cartesian(const spider_kernel* kernel, const spider::Extents& whole, std::array<int, 3> parts) {
    const spider::Grid alone(MPI_COMM_SELF, kernel, whole);
    const int first = 3 - spider::info(kernel).dimensions;
    std::array<int, 3> periods{};
    std::copy_n(alone.layout().periodic, 3, periods.begin());
    MPI_Cart_create(MPI_COMM_WORLD, 3 - first, &parts.at(static_cast<std::size_t>(first)),
                    &periods.at(static_cast<std::size_t>(first)), 0, &communicator_);
  }
  Cartesian(const Cartesian&) = delete;
  Cartesian& operator=(const Cartesian&) = delete;
  ~Cartesian() { MPI_Comm_free(&communicator_); }
  [[nodiscard]] MPI_Comm get() const { return communicator_; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

/// A warm spot in the middle of each 64 cells, one value a cell of the whole.
template <typename T>
std::vector<T> make_spots(const spider::Extents& whole) {
  std::vector<T> cells;
  cells.reserve(static_cast<std::size_t>(whole[0] * whole[1] * whole[2]));
  for (std::int64_t z = 0; z < whole[0]; ++z) {
    for (std::int64_t y = 0; y < whole[1]; ++y) {
      for (std::int64_t x = 0; x < whole[2]; ++x)
        cells.push_back(static_cast<T>(static_cast<float>((x * 7 + y * 13 + z * 29) % 64) / 64.0F));
    }
  }
  return cells;
}

/// The steps on one rank; of a kernel without planes those of each image by itself.
template <typename T>
std::vector<T> step_alone(const spider_kernel* kernel, const spider::Extents& whole,
                          const std::vector<T>& before, std::int64_t steps) {
  spider::Extents extents = whole;
  if (spider::info(kernel).dimensions < 3) extents[0] = 1;
  spider::Field<T> a(extents, spider::Halo::of(kernel, extents));
  spider::Field<T> b(extents, spider::Halo::of(kernel, extents));
  std::vector<T> after;
  for (std::int64_t image = 0; image < whole[0] / extents[0]; ++image) {
    a.upload(before.data() + image * a.size());
    const std::vector<T> cells = spider::iterate(kernel, a, b, steps).download();
    after.insert(after.end(), cells.begin(), cells.end());
  }
  return after;
}

/// Writes, reads and steps a field on all ranks; rank 0 does the same alone and compares every bit.
template <typename T>
bool check_against_one_rank(MPI_Comm ranks, const spider_kernel* kernel, const spider::Extents& whole,
                            std::int64_t steps) {
  const std::string name = spider::info(kernel).name;
  spider::Grid grid(ranks, kernel, whole);
  auto a = grid.make_field<T>();
  auto b = grid.make_field<T>();
  const std::vector<T> before = this_rank() == 0 ? make_spots<T>(whole) : std::vector<T>();
  grid.scatter(before, a);
  const std::string path = name + "_before.npy";
  grid.write_npy(a, path);
  grid.read_npy(path, b);
  spider::Field<T>& last = grid.iterate(b, a, steps);
  grid.wait();
  const std::vector<T> after = grid.gather(last);
  int same = 1;
  if (this_rank() == 0) {
    std::remove(path.c_str());
    same = step_alone(kernel, whole, before, steps) == after ? 1 : 0;
    const spider_grid_layout& layout = grid.layout();
    std::printf("%s: %lld x %lld x %lld on %d x %d x %d ranks, %lld steps: %s\n", name.c_str(),
                static_cast<long long>(whole[0]), static_cast<long long>(whole[1]),
                static_cast<long long>(whole[2]), layout.parts[0], layout.parts[1], layout.parts[2],
                static_cast<long long>(steps),
                same == 1 ? "the bits of one rank" : "NOT the bits of one rank");
  }
  MPI_Bcast(&same, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return same == 1;
}

/// As the grid divides the ranks, and with all of them along x.
template <typename T>
bool check_cuts(const spider_kernel* kernel, const spider::Extents& whole, std::int64_t steps) {
  const Cartesian along_x(kernel, whole, {1, 1, all_ranks()});
  const bool divided = check_against_one_rank<T>(MPI_COMM_WORLD, kernel, whole, steps);
  return check_against_one_rank<T>(along_x.get(), kernel, whole, steps) && divided;
}

/// The fields of a wave on this rank's part, or on the whole.
struct Wave {
  spider::Field<float> u;
  spider::Field<float> next;
  spider::Field<float> old;
  spider::Field<float> c2dt2;

  /// Time steps of the kernel, or of a grid.
  void step(spider::Update update, std::int64_t steps) {
    update.field("c2dt2", c2dt2).scalar("strength", 0.25);
    update.run_steps(u, old, next, steps);
  }
};

/// A wave through a block of two media, with a source in a plane, three fields taking turns.
bool check_wave(const spider::Extents& whole, std::int64_t steps) {
  const spider_kernel* const kernel = wave_block_kernel();
  spider::Grid grid(MPI_COMM_WORLD, kernel, whole);
  Wave part{grid.make_field<float>(), grid.make_field<float>(), grid.make_field<float>(),
            grid.make_field<float>()};
  std::vector<float> before;
  std::vector<float> media;
  if (this_rank() == 0) {
    before = make_spots<float>(whole);
    for (std::size_t i = 0; i < before.size(); ++i) media.push_back(i < before.size() / 2 ? 0.1F : 0.2F);
  }
  grid.scatter(before, part.u);
  grid.scatter(before, part.old);
  grid.scatter(media, part.c2dt2);
  part.step(grid.update(), steps);
  grid.wait();
  const std::vector<float> after = grid.gather(part.u);
  int same = 1;
  if (this_rank() == 0) {
    Wave alone{spider::Field<float>(whole), spider::Field<float>(whole), spider::Field<float>(whole),
               spider::Field<float>(whole)};
    alone.u.upload(before);
    alone.old.upload(before);
    alone.c2dt2.upload(media);
    alone.step(spider::Update(kernel), steps);
    spider::synchronize();
    same = alone.u.download() == after ? 1 : 0;
    std::printf("wave_block: %d ranks, %lld steps: %s\n", all_ranks(), static_cast<long long>(steps),
                same == 1 ? "the bits of one rank" : "NOT the bits of one rank");
  }
  MPI_Bcast(&same, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return same == 1;
}

/// A field for this rank's part, or for the whole.
template <typename T>
using MakeField = std::function<spider::Field<T>(const std::string& name)>;

/// The fields of a system of equations: sound in air that warms.
struct Sound {
  Sound(const MakeField<float>& make, const MakeField<spider::half>& make_half)
      : t(make_half("t")), other_t(make_half("t")) {
    for (const char* name : names) fields.push_back(std::make_unique<spider::Field<float>>(make(name)));
  }

  /// Time steps of the kernel, or of a grid.
  void step(spider::System system, std::int64_t steps) {
    for (std::size_t i = 0; i < names.size(); ++i) system.field(names[i], *fields[i]);
    system.field("t", t, other_t).scalar("dt", 0.25);
    system.run_steps(steps);
  }

  static constexpr std::array<const char*, 6> names{"p", "vx", "vy", "vz", "k", "damp"};
  std::vector<std::unique_ptr<spider::Field<float>>> fields;
  spider::Field<spider::half> t, other_t;
};

Sound make_part(const spider::Grid& grid) {
  return {[&](const std::string& name) { return grid.of_field(name).make_field<float>(); },
          [&](const std::string& name) { return grid.of_field(name).make_field<spider::half>(); }};
}

/// Sound on all ranks, each field by the grid of its own; rank 0 does the same alone and compares every bit.
bool check_sound(MPI_Comm ranks, const spider::Extents& whole, std::int64_t steps) {
  const spider_kernel* const kernel = sound_block_kernel();
  spider::Grid grid(ranks, kernel, whole);
  Sound part = make_part(grid);
  Sound alone = make_part(spider::Grid(MPI_COMM_SELF, kernel, whole));
  for (std::size_t i = 0; i < Sound::names.size(); ++i) {
    spider::Grid own = grid.of_field(Sound::names[i]);
    std::vector<float> before = make_spots<float>(own.whole());
    for (float& cell : before) cell = Sound::names[i] == std::string("damp") ? 1 - cell / 8 : cell / 4;
    own.scatter(before, *part.fields[i]);
    alone.fields[i]->upload(before);
  }
  const std::vector<spider::half> warmth = make_spots<spider::half>(whole);
  grid.of_field("t").scatter(warmth, part.t);
  alone.t.upload(warmth);
  part.step(grid.system(), steps);
  grid.wait();
  alone.step(spider::System(kernel), steps);
  spider::synchronize();
  const std::vector<float> p = grid.of_field("p").gather(*part.fields[0]);
  const std::vector<spider::half> t = grid.of_field("t").gather(part.t);
  int same = this_rank() != 0 || (p == alone.fields[0]->download() && t == alone.t.download()) ? 1 : 0;
  MPI_Bcast(&same, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (this_rank() == 0) {
    const spider_grid_layout& layout = grid.layout();
    std::printf("sound_block: %d x %d x %d ranks, %lld steps: %s\n", layout.parts[0], layout.parts[1],
                layout.parts[2], static_cast<long long>(steps),
                same == 1 ? "the bits of one rank" : "NOT the bits of one rank");
  }
  return same == 1;
}

/// The seconds of a call of each on the slowest rank, when repeated: the median of rounds in which they take
/// turns, since a device is slower when it is warm.
std::vector<double> times_of(spider::Grid& grid, int calls,
                             const std::vector<std::function<void(int)>>& runs) {
  constexpr int rounds = 7;  // and one before them
  std::vector<std::vector<double>> times(runs.size());
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      grid.wait();
      MPI_Barrier(MPI_COMM_WORLD);
      const auto begin = std::chrono::steady_clock::now();
      runs[i](calls);
      grid.wait();
      double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls;
      MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (round > 0) times[i].push_back(seconds);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_run : times) {
    std::sort(of_run.begin(), of_run.end());
    medians.push_back(of_run[rounds / 2]);
  }
  return medians;
}

template <typename T>
void measure(const spider_kernel* kernel, const Request& request) {
  constexpr int calls = 30;
  const int dimensions = spider::info(kernel).dimensions;
  spider::Extents whole = request.measure;
  whole[static_cast<std::size_t>(3 - dimensions)] *= all_ranks();
  spider::Grid grid(MPI_COMM_WORLD, kernel, whole);
  auto a = grid.make_field<T>();
  auto b = grid.make_field<T>();
  const spider_grid_layout& layout = grid.layout();
  {
    const std::vector<T> own = make_spots<T>(grid.extents());
    a.upload(own);
    b.upload(own);
  }
  const auto sweep_alone = [&](int count) {
    for (int i = 0; i < count; ++i) {
      spider_sweep sweep{};
      sweep.size = sizeof sweep;
      sweep.in = i % 2 == 0 ? &a.c_field() : &b.c_field();
      sweep.out = i % 2 == 0 ? &b.c_field() : &a.c_field();
      sweep.part = &layout.part;
      spider::check(spider_run(kernel, &sweep));
    }
  };
  const auto exchange = [&](int count) {
    for (int i = 0; i < count; ++i) grid.exchange(a);
  };
  const auto step = [&](int count) { grid.iterate(a, b, count); };
  const std::vector<double> times = times_of(grid, calls, {sweep_alone, exchange, step});
  Measured measured{};
  measured.sweep = times[0];
  measured.exchange = times[1];
  measured.step = times[2];
  double sent = 0;
  spider::Extents halo{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    // Of axes that are not cut here, too: they are on more ranks.
    halo[axis] = std::max(spider::info(kernel).reach_low[axis], spider::info(kernel).reach_high[axis]);
    if (layout.parts[axis] == 1) continue;
    const double area =
        static_cast<double>(layout.extent[0] * layout.extent[1] * layout.extent[2] / layout.extent[axis]);
    const int faces = layout.periodic[axis] != 0 || layout.parts[axis] > 2 ? 2 : 1;
    sent += area * static_cast<double>(halo[axis]) * faces * sizeof(T);
  }
  measured.bandwidth = measured.exchange > 0 && sent > 0 ? sent / measured.exchange : 1e9;
  if (this_rank() != 0) return;
  const double hidden =
      measured.exchange > 0
          ? 100 * std::clamp(1 - (measured.step - measured.sweep) / measured.exchange, 0.0, 1.0)
          : 100;
  std::printf(
      "%s, %lld x %lld x %lld a rank, %d ranks: sweep %.1f us, exchange %.1f us (%.1f MB, %.1f GB/s each "
      "way), "
      "step %.1f us: %.1f %% of a rank alone, %.0f %% of the exchange hidden\n",
      spider::info(kernel).name, static_cast<long long>(layout.extent[0]),
      static_cast<long long>(layout.extent[1]), static_cast<long long>(layout.extent[2]), all_ranks(),
      1e6 * measured.sweep, 1e6 * measured.exchange, sent / 1e6, measured.bandwidth / 1e9,
      1e6 * measured.step, 100 * measured.sweep / measured.step, hidden);
  std::printf("Halos of rank 0: %s\n", grid.transport().c_str());
  std::printf("On paper, at %.0f GB/s between hosts of 8:\n", request.network / 1e9);
  print_model(measured, grid.extents(), halo, sizeof(T), 8, request.network);
}

/// What a step of sound costs beside the launches of a rank alone.
void measure_sound(const Request& request) {
  constexpr int calls = 30;
  spider::Extents whole = request.measure;
  whole[0] *= all_ranks();
  const spider_kernel* const kernel = sound_block_kernel();
  spider::Grid grid(MPI_COMM_WORLD, kernel, whole);
  Sound part = make_part(grid);
  spider::System alone(kernel);
  for (std::size_t i = 0; i < Sound::names.size(); ++i) alone.field(Sound::names[i], *part.fields[i]);
  alone.field("t", part.t, part.other_t).scalar("dt", 0.25);
  spider::Launch of_part;
  of_part.part = grid.layout().part;
  const std::vector<double> times =
      times_of(grid, calls,
               {[&](int count) {
                  for (int i = 0; i < count; ++i) {
                    for (int launch = 0; launch < spider::info(kernel).launch_count; ++launch)
                      alone.run_launch(launch, of_part);
                    alone.end_launches();
                  }
                },
                [&](int count) { part.step(grid.system(), count); }});
  if (this_rank() != 0) return;
  std::printf("Halos of rank 0: %s\n", grid.transport().c_str());
  const spider::Extents own = grid.extents();
  std::printf(
      "sound_block, %lld x %lld x %lld a rank, %d ranks: launches %.1f us, step %.1f us: %.1f %% of a rank "
      "alone\n",
      static_cast<long long>(own[0]), static_cast<long long>(own[1]), static_cast<long long>(own[2]),
      all_ranks(), 1e6 * times[0], 1e6 * times[1], 100 * times[0] / times[1]);
}

/// Steps a file.
template <typename T>
void step_file(const spider_kernel* kernel, const Request& request, const spider::Extents& whole) {
  spider::Grid grid(MPI_COMM_WORLD, kernel, whole);
  auto a = grid.make_field<T>();
  auto b = grid.make_field<T>();
  grid.read_npy(request.in, a);
  grid.write_npy(grid.iterate(a, b, request.steps), request.out);
}

Request read_request(const std::vector<std::string>& words) {
  Request request;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto next = [&] {
      if (++i == words.size()) throw std::runtime_error("nothing follows " + words[i - 1]);
      return words[i];
    };
    if (words[i] == "--in") {
      request.in = next();
    } else if (words[i] == "--out") {
      request.out = next();
    } else if (words[i] == "--steps") {
      request.steps = std::stoll(next());
    } else if (words[i] == "--network") {
      request.network = 1e9 * std::stod(next());
    } else if (words[i] == "--measure") {
      for (std::int64_t& extent : request.measure) extent = std::stoll(next());
    } else {
      request.kernel = words[i];
    }
  }
  return request;
}

/// The shape in a .npy header: the grid checks all else.
spider::Extents shape_of(const std::string& path) {
  std::array<char, 256> text{};
  if (std::FILE* file = std::fopen(path.c_str(), "rb")) {
    text[std::fread(text.data(), 1, text.size() - 1, file)] = '\0';
    std::fclose(file);
  }
  for (char& letter : text) letter = letter == '\0' ? ' ' : letter;
  const std::string header(text.data(), text.size());
  std::size_t at = header.find("'shape': (");
  if (at == std::string::npos) throw std::runtime_error("no shape in " + path);
  std::vector<std::int64_t> shape;
  for (at += 10; at < header.size() && header[at] != ')'; ++at) {
    if (header[at] < '0' || header[at] > '9') continue;
    std::size_t length = 0;
    shape.push_back(std::stoll(header.substr(at, 20), &length));
    at += length - 1;
  }
  shape.insert(shape.begin(), 3 - std::min<std::size_t>(3, shape.size()), 1);
  return {shape.at(0), shape.at(1), shape.at(2)};
}

template <typename T>
bool run(const spider_kernel* kernel, const Request& request) {
  if (request.measure[2] > 0) {
    measure<T>(kernel, request);
  } else {
    step_file<T>(kernel, request, shape_of(request.in));
  }
  return true;
}

bool run(const Request& request) {
  if (request.in.empty() && request.measure[2] == 0) {
    bool good = check_cuts<float>(heat_plate_kernel(), {1, 203, 517}, 20);
    good = check_cuts<float>(heat_plate_kernel(), {3, 61, 259}, 5) && good;
    good = check_cuts<float>(heat_block_kernel(), {37, 45, 130}, 3) && good;
    good = check_cuts<spider::half>(heat_f16_block_kernel(), {41, 32, 128}, 3) && good;
    good = check_wave({43, 37, 96}, 5) && good;
    const Cartesian along_x(sound_block_kernel(), {33, 38, 94}, {1, 1, all_ranks()});
    good = check_sound(along_x.get(), {33, 38, 94}, 4) && good;
    return check_sound(MPI_COMM_WORLD, {33, 38, 94}, 5) && good;
  }
  if (request.kernel == "sound_block" && request.measure[2] > 0) {
    measure_sound(request);
    return true;
  }
  if (request.kernel == "heat_plate") return run<float>(heat_plate_kernel(), request);
  if (request.kernel == "heat_block") return run<float>(heat_block_kernel(), request);
  if (request.kernel == "heat_f16_block") return run<spider::half>(heat_f16_block_kernel(), request);
  throw std::runtime_error(
      "the kernels are heat_plate, heat_block and heat_f16_block; sound_block is measured alone");
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int status = 1;
  try {
    spider::select_device(MPI_COMM_WORLD);
    status = run(read_request({arguments + 1, arguments + count})) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", this_rank(), error.what());
  }
  MPI_Finalize();
  return status;
}
