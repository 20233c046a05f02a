"""Values that are not kept as bytes: recipes by which readers make them again (format/parquet/recipes.py).

forms.py              a value as fixed bytes and the texts of fields between them
json_forms.py, avro_forms.py, protobuf_forms.py    the same, by format
writer.py             a chunk of values to recipes, wherever typed columns make the texts
"""
