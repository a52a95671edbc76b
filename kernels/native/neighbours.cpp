#include "neighbours.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "abi.h"
#include "pool.h"

namespace native {
namespace {

// The bytes of a process: as many of them are locked as it has threads that compute.
constexpr int kBytesBits = 10;
constexpr off_t kEnd = off_t(1) << 40;  // behind those of every process
// For how long a neighbour that does not compute is believed to be between two steps.
constexpr double kBetweenSteps = 0.02;
// Into how many ranges of bytes a step looks: a neighbour takes two. Whoever locks more bytes apart from each
// other than that keeps nobody from computing.
constexpr int kMostLooks = 512;

struct flock range(short type, off_t from, off_t to) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = from;
  lock.l_len = to - from;
  return lock;
}

// How much of the cores of a process are ours, too: all of them where we do not see it.
double overlap(pid_t pid) {
  cpu_set_t ours, theirs, both;
  if (sched_getaffinity(0, sizeof(ours), &ours) || sched_getaffinity(pid, sizeof(theirs), &theirs)) return 1;
  CPU_AND(&both, &ours, &theirs);
  return (double)CPU_COUNT(&both) / CPU_COUNT(&theirs);
}

}  // namespace

int Portion::of(int threads, double others, double at) {
  if (others > 0) {
    last_ = others;
    believed_ = at + kBetweenSteps;
  } else if (at < believed_) {
    others = last_;
  }
  return std::max(1, (int)(threads * threads / (threads + others)));
}

Neighbours::Neighbours(const char* place) : file_(open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  // What can be opened need not be locked. Behind the bytes of every process nobody looks.
  if (!tells() || (lock(F_RDLCK, kEnd, kEnd + 1) && lock(F_UNLCK, kEnd, kEnd + 1))) return;
  close(file_);
  file_ = -1;
}

Neighbours::~Neighbours() {
  if (tells()) close(file_);
}

std::shared_ptr<Neighbours> Neighbours::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Neighbours> held;
  std::lock_guard<std::mutex> hold(mutex);
  std::shared_ptr<Neighbours> found = held.lock();
  if (!found) held = found = std::make_shared<Neighbours>("/proc");
  return found;
}

void Neighbours::computes(int more) {
  std::lock_guard<std::mutex> hold(mutex_);
  int before = held();
  threads_ += more;
  off_t mine = (off_t)getpid() << kBytesBits;
  if (held() > before) lock(F_RDLCK, mine + before, mine + held());
  if (held() < before) lock(F_UNLCK, mine + held(), mine + before);
}

// The system names any lock in a range: what lies before and behind it is looked through next.
double Neighbours::others() const {
  double threads = 0;
  std::vector<std::pair<off_t, off_t>> unseen = {{0, kEnd}};
  for (int looks = 0; !unseen.empty() && looks < kMostLooks; ++looks) {
    auto [from, to] = unseen.back();
    unseen.pop_back();
    struct flock seen = range(F_WRLCK, from, to);
    if (fcntl(file_, F_OFD_GETLK, &seen) || seen.l_type == F_UNLCK) continue;
    off_t begin = std::max(from, seen.l_start);
    off_t end = seen.l_len ? std::min(to, seen.l_start + seen.l_len) : to;
    threads += std::min<off_t>(end - begin, 1 << kBytesBits) * overlap((pid_t)(begin >> kBytesBits));
    if (from < begin) unseen.push_back({from, begin});
    if (end < to) unseen.push_back({end, to});
  }
  return threads;
}

int Neighbours::part_of(int threads) {
  if (threads == 1) return 1;
  double found = others();
  std::lock_guard<std::mutex> hold(mutex_);
  return portion_.of(threads, found, now());
}

int Neighbours::held() const { return std::min(threads_, 1 << kBytesBits); }

bool Neighbours::lock(short type, off_t from, off_t to) const {
  struct flock wanted = range(type, from, to);
  return !fcntl(file_, F_OFD_SETLK, &wanted);
}

}  // namespace native

using namespace native;

NATIVE_API int32_t native_neighbours_tell(const char* place) { return Neighbours(place).tells(); }

// Threads of others that compute, as they tell it in this folder, for whom `own` compute meanwhile.
NATIVE_API double native_neighbours_compute(const char* place, int32_t own) {
  Neighbours told(place);
  Computing here(told, own);
  return told.others();
}

// How many of its threads an engine takes step by step. others, at, taken: [steps]
NATIVE_API void native_neighbours_part(int32_t threads, int32_t steps, const double* others, const double* at,
                                       int32_t* taken) {
  Portion portion;
  for (int i = 0; i < steps; ++i) taken[i] = portion.of(threads, others[i], at[i]);
}
