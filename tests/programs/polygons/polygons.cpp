// Boolean operations on random polygons, offsets and triangles; prints areas, which depend on every vertex.
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <stdexcept>

#include "clipper2/clipper.h"

using namespace Clipper2Lib;

static uint32_t state = 1;

static int64_t random_below(int64_t bound) {
  state = state * 1664525u + 1013904223u;
  return static_cast<int64_t>(state >> 8) % bound;
}

static Paths64 random_polygons(int polygons, int vertices) {
  Paths64 paths;
  for (int i = 0; i < polygons; i++) {
    Path64 path;
    for (int j = 0; j < vertices; j++) path.emplace_back(random_below(100000), random_below(100000));
    paths.push_back(path);
  }
  return paths;
}

static void print(const char *what, const Paths64 &paths) {
  std::cout << what << ": " << paths.size() << " paths, area " << std::fixed << std::setprecision(1) << Area(paths)
            << '\n';
}

int main() {
  const Paths64 subject = random_polygons(4, 60), clip = random_polygons(4, 60);
  for (ClipType type : {ClipType::Intersection, ClipType::Union, ClipType::Difference, ClipType::Xor})
    print("boolean", BooleanOp(type, FillRule::NonZero, subject, clip));
  print("inflated", InflatePaths(subject, 500, JoinType::Round, EndType::Polygon));
  print("rectangle", RectClip(Rect64(20000, 20000, 70000, 60000), subject));
  try {
    if (Union(subject, FillRule::EvenOdd).size() > 3) throw std::runtime_error("more than three paths");
  } catch (const std::runtime_error &error) {
    std::cerr << error.what() << '\n';
    return 3;
  }
  return 0;
}
