/* name.c: nothing. Linked with libascendcl.so under another name that programs look for, so that one
 * library serves all names, and a program that uses two of them has one set of books. */
