"""What the conversations are about: a long document, and questions that it answers."""

from __future__ import annotations

__all__ = ["DOCUMENT", "QUESTIONS", "SYSTEM"]

SYSTEM = "You are a helpful assistant who answers questions about a text."

QUESTIONS = (
    "What is a ferry?",
    "What causes the tides?",
    "Why is the sea salty?",
    "What is the largest animal?",
    "How do whales breathe?",
    "Why does the sea look blue?",
)

DOCUMENT = """\
A short book about the sea

Water. The sea covers more than two thirds of the Earth. Most of its water lies in five oceans: \
the Pacific, the Atlantic, the Indian Ocean, the Southern Ocean and the Arctic Ocean. The Pacific \
is the largest of them and the deepest, too. At its deepest place, the Mariana Trench, it is \
almost eleven kilometres from the surface to the ground. If the highest mountain stood there, its \
top would still be under two kilometres of water.

Salt. The sea is salty because rivers carry salt into it. Rain falls on the land and slowly \
dissolves the rocks. The rivers take the dissolved salt with them and bring it to the sea. When \
the sun warms the sea, water rises into the air as vapour, but the salt stays behind. This has \
gone on for hundreds of millions of years, so the sea has become as salty as it is now. A litre \
of sea water holds about thirty-five grams of salt. People cannot drink it, because the body \
needs more water to get rid of the salt than the sea water gives.

Colour. The sea looks blue because water takes in the red part of sunlight and scatters the blue \
part. Near the coast it often looks green, because tiny plants swim in it. These plants are \
called plankton. They are so small that nobody sees a single one, but together they make about \
half of the oxygen that we breathe.

Tides. The tides are caused by the gravity of the Moon and the Sun. The Moon pulls at the water \
of the sea, and the water rises on the side of the Earth that faces the Moon, and also on the \
opposite side. Because the Earth turns, a coast passes through both of these bulges, and so most \
coasts have high water twice a day and low water twice a day. When the Sun and the Moon stand in \
one line, they pull together, and the tide is especially high. This is called a spring tide.

Waves. Waves form when the wind blows over the water. The wind pushes the surface, small ripples \
appear, and the ripples give the wind more to push against. The longer and the harder the wind \
blows, the higher the waves become. The water itself hardly moves forward in a wave. It goes \
round in a circle, while the wave passes through it. Near a beach the ground slows the lower part \
of the wave, the upper part falls over, and the wave breaks. A tsunami is another kind of wave. \
It is caused by an earthquake under the sea, and it crosses an ocean as fast as an aeroplane.

Currents. A current is water that flows through the sea like a river. Warm currents carry heat \
from the equator to the north and to the south. The Gulf Stream is a warm current in the \
Atlantic. It keeps the winters of western Europe mild. Cold water is heavier than warm water, so \
it sinks near the poles and flows back along the ground. Such a journey around the world takes \
about a thousand years.

Animals. More than two hundred thousand kinds of plants and animals of the sea are known, and \
there are probably many more. The largest animal of all is the blue whale. It grows thirty metres \
long and eats tiny shrimps that are called krill. Whales are not fish. They are mammals, and they \
breathe air with lungs, as we do. A whale comes to the surface to breathe through a hole on the \
top of its head, and it can hold its breath for an hour or longer. Fish breathe under water, \
because their gills take the oxygen out of it. Corals look like plants, but they are animals, \
too. They live in warm and clear water, and they build reefs in which a quarter of all fish find \
food and shelter.

Ships. People have sailed the sea for many thousands of years. First they had rafts and canoes, \
then ships with sails, and since the nineteenth century they have had ships with engines. Today \
nine tenths of all goods travel by ship. A ferry is a ship that carries people and cars across \
the water, again and again, between the same two harbours. It often has a door at each end, so \
that the cars drive in at one end and drive out at the other. At night a lighthouse shows the \
way. Each lighthouse has a light of its own, so that sailors know which one they see.

Protection. The sea feeds more than a billion people, but it is in danger. Too many fish are \
caught, plastic floats on the water, and the water becomes warmer every year. Where fishing was \
forbidden for some years, the fish came back. This shows that the sea recovers when people let \
it.
"""
