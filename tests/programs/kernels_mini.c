/* A mini-app of kernels.c, written anew with what matters only: the same three kernels on less data, no energies, no
 * matrix but its pattern. Arguments as there. */
#include <stdlib.h>

#define KEPT __attribute__((noinline))
typedef struct { double *x, *y, *z, *fx, *fy, *fz; int *at; } system_t;

static int cells, points, edge;

static double *filled(int count) {
    double *values = malloc(count * sizeof(double));
    for (int i = 0; i < count; i++) values[i] = (i * 37 % 101) * 0.01;
    return values;
}

static int neighbour(int at, int n, int side) {
    int x = at % n + side % 3 - 1, y = at / n % n + side / 3 % 3 - 1, z = at / (n * n) + side / 9 - 1;
    return x < 0 || y < 0 || z < 0 || x >= n || y >= n || z >= n ? -1 : (z * n + y) * n + x;
}

KEPT static void force(system_t s) {
    for (int c = 0; c < cells * cells * cells; c++)
        for (int side = 0; side < 27; side++) {
            int d = neighbour(c, cells, side);
            if (d < 0) continue;
            for (int i = 4 * c; i < 4 * c + 4; i++)
                for (int j = 4 * d; j < 4 * d + 4; j++) {
                    int k = s.at[i], l = s.at[j];
                    double dx = s.x[k] - s.x[l], dy = s.y[k] - s.y[l], dz = s.z[k] - s.z[l];
                    double r = dx * dx + dy * dy + dz * dz;
                    if (r >= 0.4 || k == l) continue;
                    double r6 = 1 / (r * r * r + 0.1), push = r6 * (r6 - 0.5) / (r + 0.1);
                    s.fx[k] += push * dx;
                    s.fy[k] += push * dy;
                    s.fz[k] += push * dz;
                }
        }
}

KEPT static void stencil(const double *from, double *to) {
    int n = points;
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++) {
                int at = (i * n + j) * n + k;
                to[at] = 0.1 * (4 * from[at] + from[at - 1] + from[at + 1] + from[at - n] + from[at + n]
                                + from[at - n * n] + from[at + n * n]);
            }
}

KEPT static void multiply(int rows, const int *begin, const int *column, const double *value, const double *x, double *y) {
    for (int row = 0; row < rows; row++) {
        double sum = 0;
        for (int at = begin[row]; at < begin[row + 1]; at++) sum += value[at] * x[column[at]];
        y[row] = sum;
    }
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    cells = atoi(argv[1]), points = atoi(argv[2]), edge = atoi(argv[3]);
    int atoms = 4 * cells * cells * cells, rows = edge * edge * edge, entries = 0;
    system_t s = { filled(atoms), filled(atoms), filled(atoms), filled(atoms), filled(atoms), filled(atoms),
                   malloc(atoms * sizeof(int)) };
    for (int i = 0; i < atoms; i++) s.at[i] = i;
    int *begin = malloc((rows + 1) * sizeof(int)), *column = malloc(27 * rows * sizeof(int));
    for (int row = 0; row < rows; row++) {
        begin[row] = entries;
        for (int side = 0; side < 27; side++) {
            int other = neighbour(row, edge, side);
            if (other >= 0) column[entries++] = other;
        }
    }
    begin[rows] = entries;
    double *value = filled(entries), *x = filled(rows), *y = filled(rows);
    double *grid = filled(points * points * points), *next = filled(points * points * points);
    for (int step = 0; step < atoi(argv[4]); step++) {
        force(s);
        for (int sweep = 0; sweep < 3; sweep++) {
            stencil(grid, next);
            double *kept = grid;
            grid = next;
            next = kept;
        }
        for (int turn = 0; turn < 4; turn++) {
            multiply(rows, begin, column, value, x, y);
            for (int i = 0; i < rows; i++) x[i] += 0.01 * y[i];
        }
    }
    return s.fx[0] + x[0] + grid[0] == 12345;
}
