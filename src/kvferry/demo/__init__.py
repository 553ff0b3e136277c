"""A real language model served over kvferry, on the command line.

model/    the model itself: its file, its tokenizer, the forward pass; keeps no KV of its own
serving/  two workers and the router in front: one prefills, the other decodes
show/     what the command prints and draws
"""
