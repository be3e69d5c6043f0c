/* A small set of kernels as simulations have them: forces between atoms in cells, a stencil on a grid, and a sparse matrix
 * times a vector. Arguments: cells on an edge, points of the grid on an edge, rows of the matrix as a cube on an edge, steps.
 * -DSCATTERED: the same arithmetic on data that lies anywhere, and the grid walked the long way. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define KEPT __attribute__((noinline))
enum { ATOMS = 4 };

static int cells, points, edge;

struct atoms { double *x, *y, *z, *fx, *fy, *fz, *energy; int *at; };

static double *doubles(size_t count) { return calloc(count, sizeof(double)); }

static unsigned random_below(unsigned bound) {
    static unsigned long long state = 42;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % bound;
}

/* 0, 1, 2, ... or, scattered, the same numbers in any order. */
static int *order(int count) {
    int *at = malloc(count * sizeof(int));
    for (int i = 0; i < count; i++) at[i] = i;
#ifdef SCATTERED
    for (int i = count - 1; i > 0; i--) {
        int j = (int)random_below((unsigned)i + 1), kept = at[i];
        at[i] = at[j];
        at[j] = kept;
    }
#endif
    return at;
}

KEPT static struct atoms crystal(void) {
    int count = cells * cells * cells * ATOMS;
    struct atoms a = { doubles(count), doubles(count), doubles(count), doubles(count), doubles(count), doubles(count),
                       doubles(count), order(count) };
    for (int i = 0; i < count; i++) {
        int cell = i / ATOMS, k = a.at[i];
        a.x[k] = cell % cells + 0.25 * (i % ATOMS) + 0.001 * random_below(100);
        a.y[k] = cell / cells % cells + 0.2 * (i % ATOMS) + 0.001 * random_below(100);
        a.z[k] = cell / (cells * cells) + 0.15 * (i % ATOMS) + 0.001 * random_below(100);
    }
    return a;
}

/* Lennard-Jones between the atoms of a cell and those of the 27 cells around it. */
KEPT static void force(struct atoms a) {
    for (int cell = 0; cell < cells * cells * cells; cell++)
        for (int side = 0; side < 27; side++) {
            int x = cell % cells + side % 3 - 1, y = cell / cells % cells + side / 3 % 3 - 1;
            int z = cell / (cells * cells) + side / 9 - 1;
            if (x < 0 || y < 0 || z < 0 || x >= cells || y >= cells || z >= cells) continue;
            int other = (z * cells + y) * cells + x;
            for (int i = 0; i < ATOMS; i++)
                for (int j = 0; j < ATOMS; j++) {
                    int k = a.at[cell * ATOMS + i], l = a.at[other * ATOMS + j];
                    double dx = a.x[k] - a.x[l], dy = a.y[k] - a.y[l], dz = a.z[k] - a.z[l];
                    double r2 = dx * dx + dy * dy + dz * dz;
                    if (r2 >= 1.5 || k == l) continue;
                    double r6 = 1 / (r2 * r2 * r2 + 0.1), push = r6 * (r6 - 0.5) / (r2 + 0.1);
                    a.fx[k] += push * dx;
                    a.fy[k] += push * dy;
                    a.fz[k] += push * dz;
                    a.energy[k] += r6 * (r6 - 1);
                }
        }
}

KEPT static void move(struct atoms a) {
    for (int i = 0; i < cells * cells * cells * ATOMS; i++) {
        int k = a.at[i];
        a.x[k] += 1e-9 * a.fx[k];
        a.y[k] += 1e-9 * a.fy[k];
        a.z[k] += 1e-9 * a.fz[k];
    }
}

/* Jacobi's method on a cube, from one grid to the other. */
KEPT static void stencil(const double *from, double *to) {
    int n = points;
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++) {
#ifdef SCATTERED
                long at = ((long)k * n + j) * n + i;
#else
                long at = ((long)i * n + j) * n + k;
#endif
                to[at] = 0.4 * from[at] + 0.1 * (from[at - 1] + from[at + 1] + from[at - n] + from[at + n]
                                                 + from[at - n * n] + from[at + n * n]);
            }
}

struct matrix { int rows, *begin, *column; double *value; };

/* 27 entries a row: a point and its neighbours. */
KEPT static struct matrix assembled(void) {
    int rows = edge * edge * edge;
    struct matrix m = { rows, malloc((rows + 1) * sizeof(int)), malloc(27 * rows * sizeof(int)), doubles(27 * rows) };
    int *name = order(rows), at = 0;
    for (int row = 0; row < rows; row++) {
        m.begin[row] = at;
        for (int side = 0; side < 27; side++) {
            int x = row % edge + side % 3 - 1, y = row / edge % edge + side / 3 % 3 - 1;
            int z = row / (edge * edge) + side / 9 - 1;
            if (x < 0 || y < 0 || z < 0 || x >= edge || y >= edge || z >= edge) continue;
            m.column[at] = name[(z * edge + y) * edge + x];
            m.value[at++] = side == 13 ? 26 : -1;
        }
    }
    m.begin[rows] = at;
    free(name);
    return m;
}

KEPT static void multiply(struct matrix m, const double *x, double *y) {
    for (int row = 0; row < m.rows; row++) {
        double sum = 0;
        for (int at = m.begin[row]; at < m.begin[row + 1]; at++) sum += m.value[at] * x[m.column[at]];
        y[row] = sum;
    }
}

KEPT static double dot(int count, const double *x, const double *y) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    cells = atoi(argv[1]), points = atoi(argv[2]), edge = atoi(argv[3]);
    struct atoms a = crystal();
    struct matrix m = assembled();
    double *grid = doubles((size_t)points * points * points), *next = doubles((size_t)points * points * points);
    double *x = doubles(m.rows), *y = doubles(m.rows), norm = 0;
    for (int i = 0; i < m.rows; i++) x[i] = 1;
    for (int step = 0; step < atoi(argv[4]); step++) {
        force(a);
        move(a);
        for (int sweep = 0; sweep < 3; sweep++) {
            stencil(grid, next);
            double *kept = grid;
            grid = next;
            next = kept;
        }
        for (int turn = 0; turn < 4; turn++) {
            multiply(m, x, y);
            norm = sqrt(dot(m.rows, y, y)) + 1;
            for (int i = 0; i < m.rows; i++) x[i] += y[i] / norm;
        }
    }
    return a.energy[0] * norm + grid[0] == 12345;
}
