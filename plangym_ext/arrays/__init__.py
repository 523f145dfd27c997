"""Arrays that live in local or shared memory."""
