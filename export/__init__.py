"""Take a forest elsewhere: ONNX, C, MicroPython; and bring forests in from scikit-learn.

The code lies in the top folder `export/`, and is imported as `edgeforest.export`.
"""
