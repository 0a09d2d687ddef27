#!/usr/bin/env python
# coding: utf-8

# In[1]:

import csv
import json
import os

import yaml

# In[2]:

rows = list(csv.DictReader(open("data/points.csv")))
print(len(rows), "rows")

# In[3]:

mean = sum(float(row["y"]) for row in rows) / len(rows)
os.makedirs("outputs", exist_ok=True)
json.dump({"mean": mean}, open("outputs/model.json", "w"))
print(yaml.safe_dump({"mean": mean}))
