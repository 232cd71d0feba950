// Beast's separately compiled half: its bodies once, instead of in every file that parses HTTP.

#include <boost/beast/src.hpp>
