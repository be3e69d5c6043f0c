"""Asks DuckDB and DataFusion the same questions about the same tables; prints the answers of both as JSON.

Comes in: a folder with a folder for each table as the argument, and a list of SQL statements as JSON on stdin.
"""

import json
import os
import sys

import datafusion
import duckdb

folder = sys.argv[1]
duck, fusion = duckdb.connect(), datafusion.SessionContext()
for table in sorted(os.listdir(folder)):
    duck.execute(f"CREATE VIEW {table} AS SELECT * FROM '{folder}/{table}/*.parquet'")
    fusion.sql(f"CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{folder}/{table}/'")

answers = {"duckdb": [], "datafusion": []}
for statement in json.load(sys.stdin):
    cursor = duck.execute(statement)
    names = [column[0] for column in cursor.description]
    answers["duckdb"].append([dict(zip(names, row)) for row in cursor.fetchall()])
    answers["datafusion"].append(fusion.sql(statement).to_pylist())
json.dump(answers, sys.stdout)
