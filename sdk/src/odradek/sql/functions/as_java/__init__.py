"""What classes of Java do and Spark SQL does not, in Python: in_python.py has their functions. Pure."""
