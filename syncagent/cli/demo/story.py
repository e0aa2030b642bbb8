"""What the demo model tells when it is asked for a story."""

from typing import Final

__all__ = ["STORY"]

#: Long enough to be stopped: half a minute at the pace of the demo model.
STORY: Final = """\
Once upon a time there was a thread that waited for an answer. It had asked
a server far away, as threads do, and the server had said: one moment. That
was on a Tuesday.

On Wednesday somebody wanted the thread to stop. They set a flag, a fine red
one, and put it where everybody could see it. But the thread was asleep in a
read, deep down where no flags are seen, and the flag stood in the sun and
turned pink.

On Thursday they asked the event loop. "There is no event loop here," said
the thread in its sleep, and that was true. They tried to raise an exception
in it, and it lay beside the thread and waited for the next line of Python,
which did not come.

On Friday they locked a lock, so that nothing would change until the thread
woke up, and then the thread that had locked it needed the lock, too. The
two of them are there to this day. People bring flowers.

On Saturday a new colleague came along and looked at the thread for a while.
She did not raise her voice. She went to the socket that the thread was
waiting for, and shut it down, both ways, from outside. The read returned.
The thread rubbed its eyes, looked at its token, and saw who had called, and
why, and when. It wrote down what it had heard so far, marked the place,
answered all questions that were still open, closed the door behind it, and
went home for supper. It took less than a millisecond.

On Sunday it was asked whether it could go on. "Of course," it said. "Where
were we?"

And since nobody had lost a word of the conversation, and nothing else was
left behind, no socket, no process, not even a lock, they went on from
there, and if nobody has cancelled them, they are talking still.
"""
