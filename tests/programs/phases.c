/* Two phases with different habits: rows that are summed again and again, and a list that is followed at random. */
#include <bf.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, COLUMNS = 512, NODES = 1 << 15, STEPS = 1 << 17 };

static double matrix[ROWS][COLUMNS];
static unsigned next_node[NODES];

static double sum_rows(int times) {
    double sum = 0;
    for (int time = 0; time < times; time++)
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++)
                sum += matrix[row][column]; /* rows */
    return sum;
}

static unsigned follow(unsigned node) {
    for (int step = 0; step < STEPS; step++)
        node = next_node[node]; /* list */
    return node;
}

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 6;
    for (unsigned node = 0; node < NODES; node++)
        next_node[node] = (node * 2654435761u + 12345u) % NODES;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            matrix[row][column] = times * row + column;
    bf_tag("rows");
    double sum = sum_rows(times);
    bf_tag("list");
    unsigned last = follow(1);
    printf("%f %u\n", sum, last);
    return 0;
}
