/* Fills two tables of an SQLite database in memory, joins them, indexes them and joins them again. */
#include <stdio.h>
#include <stdlib.h>

#include "sqlite3.h"

static sqlite3 *db;

static void run(const char *sql) {
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, message);
        exit(1);
    }
}

static sqlite3_int64 ask(const char *sql) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        exit(1);
    }
    sqlite3_int64 answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return answer;
}

static void fill(int customers, int orders) {
    sqlite3_stmt *insert;
    run("BEGIN; CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city INTEGER);"
        "CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, cents INTEGER);");
    sqlite3_prepare_v2(db, "INSERT INTO customer VALUES(?1, 'customer ' || ?1, ?2)", -1, &insert, NULL);
    for (int i = 0; i < customers; i++) {
        sqlite3_bind_int(insert, 1, i);
        sqlite3_bind_int(insert, 2, i % 97);
        sqlite3_step(insert);
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    sqlite3_prepare_v2(db, "INSERT INTO orders VALUES(?1, ?2, ?3)", -1, &insert, NULL);
    unsigned random = 1;
    for (int i = 0; i < orders; i++) {
        random = random * 1664525u + 1013904223u;
        sqlite3_bind_int(insert, 1, i);
        sqlite3_bind_int(insert, 2, (int)(random >> 8) % customers);
        sqlite3_bind_int(insert, 3, (int)(random >> 16) % 10000);
        sqlite3_step(insert);
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    run("COMMIT");
}

int main(int argc, char **argv) {
    int orders = argc > 1 ? atoi(argv[1]) : 20000;
    if (orders < 10 || sqlite3_open(":memory:", &db) != SQLITE_OK) {
        fprintf(stderr, "usage: orders [NUMBER >= 10]\n");
        return 2;
    }
    fill(orders / 10, orders);
    const char *by_city = "SELECT count(*) FROM (SELECT city, sum(cents) FROM orders JOIN customer"
                          " ON customer.id = orders.customer GROUP BY city HAVING sum(cents) > 0)";
    printf("cities with orders: %lld\n", ask(by_city));
    run("CREATE INDEX orders_by_customer ON orders(customer); CREATE INDEX customer_by_city ON customer(city);");
    printf("largest customer:   %lld\n",
           ask("SELECT customer FROM orders GROUP BY customer ORDER BY sum(cents) DESC, customer LIMIT 1"));
    printf("orders of city 7:   %lld\n", ask("SELECT count(*) FROM customer JOIN orders ON orders.customer = customer.id"
                                             " WHERE customer.city = 7"));
    sqlite3_close(db);
    return 0;
}
