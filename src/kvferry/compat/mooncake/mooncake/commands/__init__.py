"""The commands that deployments of Mooncake start, and what they answer over HTTP.

flags, flag_file             what was asked for; master_flags and client_flags, what may be
master, client               the two commands; running, from a command's start to its signal
admin, keys, quotas, drains  answers to HTTP requests; series, figures as text
cluster, homes               what they are about: nodes, through the directory of this process
"""
