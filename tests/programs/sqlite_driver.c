/* A shop in memory: inserts, indexes, joins, updates and deletes. Prints sums that depend on every row. */
#include <stdio.h>
#include <stdlib.h>
#include "sqlite3.h"

static sqlite3 *db;

static void fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
  exit(1);
}

static int print_row(void *unused, int columns, char **values, char **names) {
  (void)unused;
  for (int i = 0; i < columns; i++) printf("%s=%s ", names[i], values[i] ? values[i] : "NULL");
  printf("\n");
  return 0;
}

static void run(const char *sql) {
  if (sqlite3_exec(db, sql, print_row, NULL, NULL) != SQLITE_OK) fail(sql);
}

static void fill_customers(int count) {
  sqlite3_stmt *insert;
  if (sqlite3_prepare_v2(db, "INSERT INTO customer VALUES (?, ?, ?)", -1, &insert, NULL) != SQLITE_OK) fail("insert");
  for (int i = 0; i < count; i++) {
    char name[32];
    snprintf(name, sizeof name, "customer %d", i * 7919 % count);
    sqlite3_bind_int(insert, 1, i);
    sqlite3_bind_text(insert, 2, name, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int(insert, 3, i % 37);
    if (sqlite3_step(insert) != SQLITE_DONE) fail("insert");
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
}

static void fill_orders(int count, int customers) {
  sqlite3_stmt *insert;
  if (sqlite3_prepare_v2(db, "INSERT INTO sale VALUES (?, ?, ?, ?)", -1, &insert, NULL) != SQLITE_OK) fail("insert");
  unsigned random = 1;
  for (int i = 0; i < count; i++) {
    random = random * 1664525u + 1013904223u;
    sqlite3_bind_int(insert, 1, i);
    sqlite3_bind_int(insert, 2, (int)(random >> 8) % customers);
    sqlite3_bind_int(insert, 3, (int)(random >> 20) % 1000);
    sqlite3_bind_double(insert, 4, i * 0.25);
    if (sqlite3_step(insert) != SQLITE_DONE) fail("insert");
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
}

int main(int argc, char **argv) {
  int sales = argc > 1 ? atoi(argv[1]) : 20000, customers = sales / 10;
  if (sqlite3_open(":memory:", &db) != SQLITE_OK) fail("open");
  run("CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, region INTEGER);"
      "CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, price REAL); BEGIN");
  fill_customers(customers);
  fill_orders(sales, customers);
  run("COMMIT; CREATE INDEX sale_customer ON sale (customer); CREATE INDEX customer_name ON customer (name)");
  run("SELECT region, count(*) AS sales, sum(amount) AS amount, round(sum(price), 2) AS price FROM sale "
      "JOIN customer ON customer.id = sale.customer GROUP BY region ORDER BY amount DESC LIMIT 5");
  run("SELECT name, total(amount) AS spent FROM customer JOIN sale ON sale.customer = customer.id "
      "WHERE name LIKE '%7%' GROUP BY name ORDER BY spent DESC, name LIMIT 5");
  run("UPDATE sale SET amount = amount + 1 WHERE customer IN (SELECT id FROM customer WHERE region = 5)");
  run("DELETE FROM sale WHERE id % 9 = 0; SELECT count(*) AS sales, sum(amount) AS amount FROM sale");
  run("SELECT max(length(upper(name) || hex(id))) AS longest, group_concat(DISTINCT region) AS regions FROM customer "
      "WHERE id < 40");
  run("PRAGMA integrity_check");
  sqlite3_close(db);
  return 0;
}
