// Simulated time: an integer count of nanoseconds, so that sums are exact and
// two runs agree to the last bit.
//
// SimDuration is a length of time, SimTime a point on the clock of a run, which
// starts at SimTime::Zero().  The range is 292 years either way; arithmetic is
// not checked for overflow (a week-long trace is 6e14 ns, far inside).

#ifndef BASE_SIM_TIME_H_
#define BASE_SIM_TIME_H_

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>
#include <ostream>

namespace interleave {

class SimDuration {
 public:
  constexpr SimDuration() = default;
  static constexpr SimDuration Nanos(int64_t ns) { return SimDuration(ns); }
  static constexpr SimDuration Zero() { return SimDuration(0); }
  static constexpr SimDuration Max() {
    return SimDuration(std::numeric_limits<int64_t>::max());
  }
  // Rounded to the nearest nanosecond, halves away from zero.
  static SimDuration Micros(double us) { return Rounded(us * 1e3); }
  static SimDuration Millis(double ms) { return Rounded(ms * 1e6); }
  static SimDuration Seconds(double s) { return Rounded(s * 1e9); }

  constexpr int64_t nanos() const { return ns_; }
  constexpr double micros() const { return static_cast<double>(ns_) / 1e3; }
  constexpr double millis() const { return static_cast<double>(ns_) / 1e6; }
  constexpr double seconds() const { return static_cast<double>(ns_) / 1e9; }

  constexpr SimDuration& operator+=(SimDuration d) {
    ns_ += d.ns_;
    return *this;
  }
  constexpr SimDuration& operator-=(SimDuration d) {
    ns_ -= d.ns_;
    return *this;
  }
  friend constexpr SimDuration operator+(SimDuration a, SimDuration b) {
    return SimDuration(a.ns_ + b.ns_);
  }
  friend constexpr SimDuration operator-(SimDuration a, SimDuration b) {
    return SimDuration(a.ns_ - b.ns_);
  }
  friend constexpr SimDuration operator*(SimDuration a, int64_t n) {
    return SimDuration(a.ns_ * n);
  }
  friend constexpr auto operator<=>(SimDuration, SimDuration) = default;
  friend std::ostream& operator<<(std::ostream& out, SimDuration d) {
    return out << d.ns_ << "ns";
  }

 private:
  explicit constexpr SimDuration(int64_t ns) : ns_(ns) {}
  static SimDuration Rounded(double ns) {
    return SimDuration(static_cast<int64_t>(std::llround(ns)));
  }

  int64_t ns_ = 0;
};

class SimTime {
 public:
  constexpr SimTime() = default;
  static constexpr SimTime Zero() { return SimTime(); }
  // Later than everything that happens in a run.
  static constexpr SimTime Infinity() {
    return FromNanos(std::numeric_limits<int64_t>::max());
  }
  static constexpr SimTime FromNanos(int64_t ns) {
    SimTime t;
    t.since_start_ = SimDuration::Nanos(ns);
    return t;
  }
  static SimTime FromSeconds(double s) {
    return FromNanos(SimDuration::Seconds(s).nanos());
  }

  constexpr int64_t nanos() const { return since_start_.nanos(); }
  constexpr double seconds() const { return since_start_.seconds(); }
  constexpr SimDuration since_start() const { return since_start_; }

  constexpr SimTime& operator+=(SimDuration d) {
    since_start_ += d;
    return *this;
  }
  friend constexpr SimTime operator+(SimTime t, SimDuration d) {
    return FromNanos(t.nanos() + d.nanos());
  }
  friend constexpr SimTime operator-(SimTime t, SimDuration d) {
    return FromNanos(t.nanos() - d.nanos());
  }
  friend constexpr SimDuration operator-(SimTime a, SimTime b) {
    return SimDuration::Nanos(a.nanos() - b.nanos());
  }
  friend constexpr auto operator<=>(SimTime, SimTime) = default;
  friend std::ostream& operator<<(std::ostream& out, SimTime t) {
    return out << "t=" << t.nanos() << "ns";
  }

 private:
  SimDuration since_start_;
};

}  // namespace interleave

#endif  // BASE_SIM_TIME_H_
